//! Redis of our own: a lone server, or a cluster.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    Result,
    machine::{User, folder_of, free_port},
    process::{Kind, Process},
};

const KIND: Kind = Kind {
    name: "redis-server",
    ready: "Ready to accept connections",
    // What it would save is thrown away anyway.
    end: Signal::KILL,
};

/// No cluster takes longer to agree on who serves what.
const PATIENCE: Duration = Duration::from_secs(60);
/// Masters of a cluster, and beside them one replica, of the first.
const MASTERS: usize = 3;

/// Where Debian has the programs.
const DEBIAN: &str = "/usr/bin";

/// One server with its data in a fresh folder.
struct Node {
    port: u16,
    /// Of the cluster's own traffic.
    bus: Option<u16>,
    process: Process,
}

/// A Redis on a free loopback port, with an append-only file synced every second and no snapshots;
/// everything else as an installation has it. Dropped, it is ended and its data removed.
pub struct PrivateRedis {
    programs: PathBuf,
    node: Node,
    settings: Vec<String>,
}

/// Three masters and a replica of the first, on free loopback ports, as [`PrivateRedis`] each.
pub struct PrivateRedisCluster {
    programs: PathBuf,
    nodes: Vec<Node>,
}

/// What a Debian system installs for it.
pub const REDIS_PACKAGES: &[&str] = &["redis-server", "redis-tools"];

impl PrivateRedis {
    /// The folder of its programs: the first of PATH, else Debian's.
    pub fn find() -> Option<PathBuf> {
        folder_of(&["redis-server", "redis-cli"], [PathBuf::from(DEBIAN)])
    }

    /// Makes a new one and waits until it takes connections.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same with more settings, `--maxmemory 100mb` as two.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(settings: &[&str]) -> Result<Self> {
        let programs = Self::find().ok_or("redis-server is not installed")?;
        let settings: Vec<_> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut node = Node::new(false)?;
        node.start_somewhere(&programs, &settings)?;
        Ok(Self { programs, node, settings })
    }

    /// Of its first database.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.node.port)
    }

    /// Its port on 127.0.0.1, the same over all its starts.
    pub fn port(&self) -> u16 {
        self.node.port
    }

    /// The file with all that it said.
    pub fn log(&self) -> PathBuf {
        self.node.process.log()
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self) -> Result {
        self.node.process.signal_and_wait(Signal::KILL)
    }

    /// Starts it on the same port and data, and waits until it takes connections.
    ///
    /// # Errors
    /// It runs, or does not start.
    pub fn start_again(&mut self) -> Result {
        self.node.start(&self.programs, &self.settings)
    }

    /// What `redis-cli` answers to a command.
    ///
    /// # Errors
    /// The server's, or there is none.
    pub fn cli(&self, command: &[&str]) -> Result<String> {
        cli(&self.programs, self.node.port, command)
    }
}

impl PrivateRedisCluster {
    /// Makes a new one and waits until it serves all slots, about 5 s.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start() -> Result<Self> {
        let programs = PrivateRedis::find().ok_or("redis-server is not installed")?;
        let mut cluster = Self { programs, nodes: Vec::new() };
        for _ in 0..=MASTERS {
            let mut node = Node::new(true)?;
            node.start_somewhere(&cluster.programs, &[])?;
            cluster.nodes.push(node);
        }
        let address = |node: &Node| format!("127.0.0.1:{}", node.port);
        let masters: Vec<_> = cluster.nodes[..MASTERS].iter().map(address).collect();
        let mut create = vec!["--cluster", "create"];
        create.extend(masters.iter().map(String::as_str));
        create.push("--cluster-yes");
        cli(&cluster.programs, cluster.nodes[0].port, &create)?;
        cluster.wait_for(0, "cluster info", "cluster_state:ok")?;
        let first = cluster.cli(0, &["cluster", "myid"])?;
        let replica = address(&cluster.nodes[MASTERS]);
        let join = ["--cluster", "add-node", &replica, &masters[0], "--cluster-slave"];
        let join = [&join[..], &["--cluster-master-id", &first]].concat();
        cli(&cluster.programs, cluster.nodes[0].port, &join)?;
        cluster.wait_for(MASTERS, "info replication", "master_link_status:up")?;
        for node in 0..=MASTERS {
            cluster.wait_for(node, "cluster info", "cluster_state:ok")?;
        }
        Ok(cluster)
    }

    /// Of all its nodes.
    pub fn url(&self) -> String {
        let others: Vec<_> =
            self.nodes[1..].iter().map(|node| format!("node=127.0.0.1:{}", node.port)).collect();
        format!("redis-cluster://127.0.0.1:{}?{}", self.nodes[0].port, others.join("&"))
    }

    /// Its ports on 127.0.0.1, the masters' first, the same over all their starts.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// Kills a node with SIGKILL.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, node: usize) -> Result {
        self.nodes[node].process.signal_and_wait(Signal::KILL)
    }

    /// Starts a node on the same port and data.
    ///
    /// # Errors
    /// It runs, or does not start.
    pub fn start_again(&mut self, node: usize) -> Result {
        self.nodes[node].start(&self.programs, &[])
    }

    /// What `redis-cli` answers to a command on a node.
    ///
    /// # Errors
    /// The server's, or there is none.
    pub fn cli(&self, node: usize, command: &[&str]) -> Result<String> {
        cli(&self.programs, self.nodes[node].port, command)
    }

    /// Waits until a node's answer says so, a minute at most.
    ///
    /// # Errors
    /// It does not by then.
    pub fn wait_for(&self, node: usize, command: &str, says: &str) -> Result {
        let command: Vec<_> = command.split(' ').collect();
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if self.cli(node, &command).is_ok_and(|answer| answer.contains(says)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("{command:?} did not say {says} within {PATIENCE:?}"))
    }
}

impl Node {
    fn new(clustered: bool) -> Result<Self> {
        let process = Process::new(&KIND, User::oneself().folder("jobs-redis-")?)?;
        let bus = if clustered { Some(free_port()?) } else { None };
        Ok(Self { port: free_port()?, bus, process })
    }

    /// Somebody else may take the port between the look and the start.
    fn start_somewhere(&mut self, programs: &std::path::Path, settings: &[String]) -> Result {
        for _ in 0..3 {
            match self.start(programs, settings) {
                Err(why) if why.contains("Address already in use") => {
                    self.port = free_port()?;
                    if let Some(bus) = &mut self.bus {
                        *bus = free_port()?;
                    }
                }
                done => return done,
            }
        }
        self.start(programs, settings)
    }

    fn start(&mut self, programs: &std::path::Path, settings: &[String]) -> Result {
        let mut command = Command::new(programs.join("redis-server"));
        let port = self.port.to_string();
        command.args(["--port", &port, "--bind", "127.0.0.1", "--dir"]).arg(self.process.folder());
        command.args(["--appendonly", "yes", "--save", "", "--daemonize", "no"]);
        if let Some(bus) = self.bus {
            command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]);
            command.args(["--cluster-port", &bus.to_string()]);
        }
        command.args(settings);
        self.process.start(command)
    }
}

/// Removes the keys that match a pattern from the lone server of this URL.
///
/// # Errors
/// redis-cli is not installed, or the server refuses.
pub fn remove_keys(url: &str, pattern: &str) -> Result {
    const REMOVE: &str = "local c = '0' repeat \
        local page = redis.call('SCAN', c, 'MATCH', ARGV[1], 'COUNT', 1000) c = page[1] \
        if #page[2] > 0 then redis.call('UNLINK', unpack(page[2])) end until c == '0'";
    let programs = PrivateRedis::find().ok_or("redis-cli is not installed")?;
    let mut cli = Command::new(programs.join("redis-cli"));
    cli.args(["-u", url, "-e", "eval", REMOVE, "0", pattern]);
    answer(cli).map(drop)
}

fn cli(programs: &std::path::Path, port: u16, command: &[&str]) -> Result<String> {
    let mut cli = Command::new(programs.join("redis-cli"));
    cli.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-e"]).args(command);
    answer(cli)
}

fn answer(mut cli: Command) -> Result<String> {
    let output = cli.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("redis-cli does not start: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{}{}", text(&output.stdout), text(&output.stderr)))
}
