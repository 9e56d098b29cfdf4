//! What is on this machine: programs, an unprivileged user, a free port, a place for data.

use std::{
    fs::{self, File, Permissions},
    io::Read,
    net::{Ipv4Addr, TcpListener},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::geteuid;

use crate::Result;

/// The folder in which all these programs are: of PATH, else of `others`.
///
/// All in one, because two versions on one machine do not work together.
pub fn folder_of(programs: &[&str], others: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(others);
    folders.find(|folder| programs.iter().all(|program| folder.join(program).is_file()))
}

/// Whoever a server runs as.
#[derive(Clone, Copy)]
pub struct User(Option<(u32, u32)>);

impl User {
    /// Oneself, for a server that runs as root, too.
    pub fn oneself() -> Self {
        Self(None)
    }

    /// Oneself; as root, the user of this name, because the servers refuse to run as root.
    pub fn unprivileged(name: &str) -> Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self(None));
        }
        let number = |flag| {
            let output = Command::new("id").args([flag, name]).output().ok()?;
            String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
        };
        match number("-u").zip(number("-g")) {
            Some(numbers) => Ok(Self(Some(numbers))),
            None => Err(format!("it refuses to run as root, and there is no user {name} for it")),
        }
    }

    /// Lets it run as them.
    pub fn runs(self, command: &mut Command) {
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
    }

    /// Gives them a file or folder.
    pub fn owns(self, path: &Path) -> Result {
        let Some((user, group)) = self.0 else { return Ok(()) };
        chown(path, Some(user), Some(group)).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A fresh folder of theirs for data.
    ///
    /// Not where temporary files usually are: that may be in memory, where durability costs nothing
    /// and a test of it shows nothing. `/var/tmp` survives a restart of the machine.
    pub fn folder(self, name: &str) -> Result<PathBuf> {
        let durable = PathBuf::from("/var/tmp");
        let place = if durable.is_dir() { durable } else { std::env::temp_dir() };
        let mut folder = tempfile::Builder::new();
        folder.prefix(name).permissions(Permissions::from_mode(0o700));
        let folder = folder.tempdir_in(place);
        let folder = folder.map_err(|error| format!("no folder for {name}: {error}"))?;
        self.owns(folder.path())?;
        Ok(folder.keep())
    }

    /// A file of theirs that nobody else reads.
    pub fn file(self, path: &Path, text: &str) -> Result {
        use std::{io::Write, os::unix::fs::OpenOptionsExt};
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        self.owns(path)
    }
}

/// A loopback port on which nothing listens.
///
/// Below the ports that systems give to clients: a server that is killed and started again must not
/// find its port taken by a connection.
pub fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let [high, low] = random()?;
        let port = 10_000 + u16::from_be_bytes([high, low]) % 20_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no loopback port is free".to_owned())
}

/// A password.
pub fn secret() -> Result<String> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| format!("/dev/urandom: {error}"))
}

/// The folders that match, the one with the highest number first.
pub fn versions(parent: &str, below: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path().join(below)))
    });
    let mut all: Vec<_> = numbered.collect();
    all.sort();
    all.into_iter().rev().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_come_first() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["9", "15", "common"] {
            fs::create_dir_all(parent.path().join(name).join("bin")).unwrap();
        }
        let found = versions(&parent.path().display().to_string(), "bin");
        assert_eq!(found, [parent.path().join("15/bin"), parent.path().join("9/bin")]);
    }

    #[test]
    fn programs_are_found_together_or_not() {
        let [one, both] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        fs::write(one.path().join("server-a"), "").unwrap();
        for name in ["server-a", "server-b"] {
            fs::write(both.path().join(name), "").unwrap();
        }
        let others = || [one.path().to_owned(), both.path().to_owned()];
        assert_eq!(folder_of(&["server-a"], others()).as_deref(), Some(one.path()));
        assert_eq!(folder_of(&["server-a", "server-b"], others()).as_deref(), Some(both.path()));
        assert_eq!(folder_of(&["server-c"], others()), None);
    }
}
