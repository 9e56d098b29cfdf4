//! The project's files, for the tests that read them.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

/// The text of a file of the workspace.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file under `folder`, build output and hidden folders left out.
pub fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files.extend(walk(&path));
            }
        } else {
            files.push(path);
        }
    }
    files
}
