//! Real servers: started, killed, started again, and gone with whoever started them.
//!
//! This program is the owner of a server where a test starts it so.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use jobs_servers::{PrivatePgbouncer, PrivatePostgres, psql};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Set for a process that starts a server, says where it is, and waits at its standard input.
const OWNER: &str = "JOBS_SERVERS_OWNER";

fn main() -> ExitCode {
    if env::var_os(OWNER).is_some() {
        return own();
    }
    let tests: [(&str, fn()); 6] = [
        ("a_server_is_fresh_durable_and_only_on_loopback", fresh),
        ("a_killed_server_has_gone_and_comes_back_with_its_data", killed),
        ("a_server_that_does_not_start_says_why", refused),
        ("a_pooler_is_in_front_of_every_database", pooled),
        ("a_dropped_server_leaves_nothing", dropped),
        ("a_server_ends_with_its_owner_however_that_ends", orphaned),
    ];
    let missing = PrivatePostgres::find().is_none() || PrivatePgbouncer::find().is_none();
    let skip = missing && env::var_os("JOBS_TEST_REQUIRE").is_none();
    if skip {
        eprintln!("skipped: PostgreSQL or pgbouncer is not installed");
    }
    let trials = tests.map(|(name, test)| {
        let test = move || {
            test();
            Ok::<(), Failed>(())
        };
        Trial::test(name, test).with_ignored_flag(skip)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// A psql that stays.
fn client(url: &str) -> Command {
    let beside = PrivatePostgres::find().expect("PostgreSQL").join("psql");
    let mut command = Command::new(if beside.exists() { beside } else { "psql".into() });
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", url]);
    command
}

fn said(url: &str, sql: &str) -> String {
    psql(url, sql).unwrap_or_else(|why| panic!("{sql}: {why}"))
}

fn folder(log: &Path) -> PathBuf {
    log.parent().expect("a folder").to_owned()
}

fn fresh() {
    let server = PrivatePostgres::start().expect("it starts");
    let setting = |name: &str| said(&server.url(), &format!("SHOW {name}"));
    let settings = ["fsync", "synchronous_commit", "full_page_writes", "max_connections"];
    assert_eq!(settings.map(setting), ["on", "on", "on", "300"]);
    assert_eq!(setting("listen_addresses"), "127.0.0.1");
    assert_eq!(setting("default_transaction_isolation"), "read committed");
    let databases = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database";
    let databases = said(&server.url(), databases);
    assert_eq!(databases, "postgres template0 template1");
    let stranger = server.url().replacen("postgres:", "postgres:not", 2).replacen("not", "", 1);
    let refused = psql(&stranger, "SELECT 1").expect_err("another password");
    assert!(refused.contains("authentication failed"), "{refused}");
}

fn killed() {
    let mut server = PrivatePostgres::start().expect("it starts");
    let port = server.port();
    said(&server.url(), "CREATE TABLE kept AS SELECT 7 AS n");
    let run = |sql| {
        let mut client = client(&server.url());
        client.args(["-c", sql]).stdout(Stdio::null()).stderr(Stdio::null());
        client.spawn().expect("psql")
    };
    let mut waiting = run("SELECT pg_sleep(600)");
    // It does not notice that its postmaster has gone before its statement is done.
    let busy = "DO $$ BEGIN WHILE clock_timestamp() < now() + '3 s' LOOP END LOOP; END $$";
    let mut busy = run(busy);
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' OR query ~ '^DO'";
    while said(&server.url(), active) != "2" {
        for client in [&mut waiting, &mut busy] {
            assert_eq!(client.try_wait().expect("a status"), None, "it has an answer too soon");
        }
    }
    server.kill().expect("it ran");
    // With its server gone, a client has no answer to wait for.
    assert!(!waiting.wait().expect("a status").success());
    busy.wait().expect("a status");
    psql(&server.url(), "SELECT 1").expect_err("nobody is there");
    server.kill().expect_err("it does not run");
    server.start_again().expect("it recovers");
    assert_eq!((said(&server.url(), "TABLE kept"), server.port()), ("7".to_owned(), port));
    server.start_again().expect_err("it runs");
    server.stop().expect("it ran");
    server.start_again().expect("it starts");
    assert_eq!(said(&server.url(), "TABLE kept"), "7");
    let log = std::fs::read_to_string(server.log()).expect("a log");
    let starts = log.matches("ready to accept connections").count();
    let recoveries = log.matches("was not properly shut down").count();
    assert_eq!((starts, recoveries), (3, 1), "{log}");
}

fn refused() {
    let mut server = PrivatePostgres::start().expect("it starts");
    server.stop().expect("it ran");
    std::fs::remove_file(folder(&server.log()).join("data/PG_VERSION")).expect("a file");
    let why = server.start_again().expect_err("its data is broken");
    assert!(why.contains("ended before it was ready") && why.contains("PG_VERSION"), "{why}");
    assert!(!why.contains("ready to accept"), "what it said before is not shown: {why}");
    assert_eq!(server.id(), None);
}

fn pooled() {
    let server = PrivatePostgres::start().expect("it starts");
    let mut pooler = PrivatePgbouncer::start(&server.url()).expect("it starts");
    said(&server.url(), "CREATE DATABASE other");
    let name = "SELECT current_database()";
    assert_eq!(said(&pooler.url(), name), "postgres");
    assert_eq!(said(&pooler.url_of("other"), name), "other");
    // In transaction mode, a client that is between transactions holds no connection.
    let backend = "SELECT pg_backend_pid()";
    let mut idle = client(&pooler.url());
    let idle = idle.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut idle = idle.expect("psql");
    let mut input = idle.stdin.take().expect("a pipe");
    writeln!(input, "{backend};").expect("it reads");
    let mut answer = String::new();
    let mut output = BufReader::new(idle.stdout.take().expect("a pipe"));
    output.read_line(&mut answer).expect("a line");
    assert_eq!(said(&pooler.url(), backend), answer.trim());
    drop(input);
    assert!(idle.wait().expect("a status").success());
    pooler.kill().expect("it ran");
    psql(&pooler.url(), name).expect_err("nobody is there");
    pooler.start_again().expect("it starts");
    assert_eq!(said(&pooler.url(), name), "postgres");
    let taken = PrivatePgbouncer::start("postgres:nobody").err().expect("no host");
    assert!(taken.contains("names no host"), "{taken}");
}

fn dropped() {
    let server = PrivatePostgres::start().expect("it starts");
    let (folder, id) = (folder(&server.log()), server.id().expect("it runs"));
    assert!(folder.join("data").exists() && runs(id));
    drop(server);
    assert!(!folder.exists() && !runs(id));
    let mut server = PrivatePostgres::start().expect("it starts");
    server.kill().expect("it ran");
    let folder = self::folder(&server.log());
    drop(server);
    assert!(!folder.exists(), "also of one that does not run");
}

fn runs(id: u32) -> bool {
    let id = Pid::from_raw(id.cast_signed()).expect("a process");
    test_kill_process(id).is_ok()
}

/// The owner: one line with its server's process number and folder, then it waits.
fn own() -> ExitCode {
    let server = PrivatePostgres::start().expect("it starts");
    println!("{} {}", server.id().expect("it runs"), folder(&server.log()).display());
    std::io::stdout().flush().expect("a reader");
    let mut word = String::new();
    std::io::stdin().read_to_string(&mut word).expect("an end");
    assert_eq!(word, "", "this panic was asked for");
    ExitCode::SUCCESS
}

fn orphaned() {
    let signal = |owner: &Child, signal| {
        kill_process(Pid::from_child(owner), signal).expect("it runs");
    };
    for name in ["return", "panic", "Ctrl-C", "SIGTERM", "SIGKILL"] {
        let mut owner = Command::new(env::current_exe().expect("this program"));
        owner.env(OWNER, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut owner = owner.spawn().expect("it starts");
        let mut line = String::new();
        let mut output = BufReader::new(owner.stdout.take().expect("a pipe"));
        output.read_line(&mut line).expect("a line");
        let (id, folder) = line.trim().split_once(' ').expect("two words");
        let (id, folder) = (id.parse().expect("a number"), Path::new(folder));
        assert!(runs(id) && folder.join("data").exists(), "{name}");
        let mut input = owner.stdin.take().expect("a pipe");
        match name {
            "return" => {}
            "panic" => input.write_all(b"!").expect("it reads"),
            "Ctrl-C" => signal(&owner, Signal::INT),
            "SIGTERM" => signal(&owner, Signal::TERM),
            _ => signal(&owner, Signal::KILL),
        }
        drop(input);
        owner.wait().expect("a status");
        // The shell of the leash goes last, and nobody is left to wait for it.
        for _ in 0..200 {
            if !folder.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(!folder.exists(), "{name}: its data is still there");
        let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let gone = !runs(id) || state.contains(") Z ");
        assert!(gone, "{name}: process {id} is still there: {state}");
    }
}
