//! What differs from store to store is one file each: no other source of this application knows
//! which stores there are, and none of the four knows another's.

use std::{fs, path::Path};

/// A feature, its file, and the crates that are its own.
const STORES: [(&str, &str, &[&str]); 4] = [
    ("sqlite", "sqlite.rs", &["jobs_sqlite", "sqlx", "rusqlite"]),
    ("postgres", "postgres.rs", &["jobs_postgres", "sqlx"]),
    ("mongo", "mongo.rs", &["jobs_mongo", "mongodb", "bson"]),
    ("redis", "redis.rs", &["jobs_redis", "fred"]),
];

fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else {
            let text = fs::read_to_string(&path).expect("text");
            found.push((path.strip_prefix(root()).expect("below").display().to_string(), text));
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
}

/// Every crate that is some store's.
fn crates() -> impl Iterator<Item = &'static str> {
    STORES.into_iter().flat_map(|(_, _, crates)| crates.iter().copied())
}

fn uses(text: &str, name: &str) -> bool {
    text.contains(&format!("{name}::"))
}

#[test]
fn only_a_stores_own_file_knows_its_crates() {
    let all = sources(root());
    for (_, file, own) in STORES {
        let path = format!("store/{file}");
        let (_, text) = all.iter().find(|(name, _)| *name == path).expect("its file");
        assert!(own.iter().any(|own| uses(text, own)), "{path} is not that store's");
        let others = crates().filter(|one| !own.contains(one) && uses(text, one));
        assert_eq!(others.collect::<Vec<_>>(), [""; 0], "in {path}");
    }
    let of_a_store = |name: &str| STORES.iter().any(|(_, file, _)| name == format!("store/{file}"));
    let rest: Vec<_> = all.iter().filter(|(name, _)| !of_a_store(name)).collect();
    assert!(rest.len() > 8, "the sources are found");
    for (name, text) in rest {
        assert_eq!(crates().find(|one| uses(text, one)), None, "in {name}");
    }
}

#[test]
fn only_the_list_of_stores_asks_for_features() {
    for (name, text) in sources(root()) {
        if name == "store/mod.rs" {
            for (feature, ..) in STORES {
                assert!(text.contains(&format!("feature = \"{feature}\"")), "{feature} in {name}");
            }
            continue;
        }
        let of_tests = text.matches("cfg(test)").count();
        assert!(!text.contains("feature = "), "{name}");
        assert_eq!(text.matches("cfg").count(), of_tests, "{name} differs by how it is built");
        // Nor does anything else look at the URL.
        assert!(name.starts_with("store/") || !text.contains("scheme() =="), "{name}");
    }
}

/// A user of one store compiles no other: asked of cargo, feature by feature.
#[test]
fn a_feature_brings_one_driver() {
    for (feature, _, own) in STORES {
        let mut tree = std::process::Command::new(env!("CARGO"));
        tree.args(["tree", "--locked", "-e", "normal", "--prefix", "none", "-p", "invoices"]);
        let output = tree.args(["--no-default-features", "--features", feature]).output();
        let output = output.expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let packages = String::from_utf8(output.stdout).expect("text");
        let has = |name: &str| packages.lines().any(|line| line.split(' ').next() == Some(name));
        assert!(has(&own[0].replace('_', "-")), "{feature}: {packages}");
        for (other, _, crates) in STORES {
            // With Redis, the rows and the outbox are in SQLite.
            let rows = feature == "redis" && other == "sqlite";
            if other != feature && !rows {
                let driver = crates[0].replace('_', "-");
                assert!(!has(&driver), "{feature} brings {driver}");
            }
        }
    }
}
