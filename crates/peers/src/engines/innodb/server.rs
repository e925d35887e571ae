//! The server: installed, started and ended by this program.

use crate::engines::Settings;
use crate::stop::Stop;
use anyhow::{Context, Result, bail};
use mysql::{Conn, OptsBuilder};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A machine under load starts it in some ten seconds.
const START_MAX: Duration = Duration::from_secs(180);
/// It writes all changed pages first.
const END_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
const INSTALL: &str = "apt-get install mariadb-server-core mariadb-client-core";

pub struct Server {
    child: Child,
    socket: PathBuf,
    stop: Stop,
}

impl Server {
    pub fn start(settings: &Settings) -> Result<Server> {
        let data = settings.directory.join("data");
        if !data.exists() {
            install(&settings.directory, &data)?;
        }
        // A path of a socket has at most 108 bytes (unix(7)).
        let socket = settings.directory.join("s");
        if socket.as_os_str().len() > 100 {
            bail!(
                "{} is too long for a socket: choose another --directory",
                socket.display()
            );
        }
        let log = settings.directory.join("server.log");
        let mut command = command("mariadbd", &settings.directory, &data)?;
        let output = File::create(&log)?;
        command
            .args(arguments(settings))
            .arg(format!("--socket={}", socket.display()))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = command.spawn().context("mariadbd")?;
        settings.stop.server_started(child.id() as i32);
        let mut server = Server {
            child,
            socket,
            stop: settings.stop.clone(),
        };
        server.wait_until_up(&log)?;
        Ok(server)
    }

    fn wait_until_up(&mut self, log: &Path) -> Result<()> {
        let until = Instant::now() + START_MAX;
        loop {
            self.stop.check()?;
            let reason = match self.connect() {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > until {
                let log = fs::read_to_string(log).unwrap_or_default();
                let lines: Vec<&str> = log.lines().rev().take(5).collect();
                bail!(
                    "mariadbd does not start: {reason:#}; it says: {}",
                    lines.join(" | ")
                );
            }
            std::thread::sleep(POLL);
        }
    }

    pub fn connect(&self) -> Result<Conn> {
        let socket = self.socket.to_str().context("path of the socket")?;
        let options = OptsBuilder::new().socket(Some(socket)).user(Some("root"));
        Ok(Conn::new(options)?)
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn end(mut self) -> Result<()> {
        self.terminate(Signal::TERM)
    }

    /// Asks it to end, and waits; kills it if that takes too long.
    fn terminate(&mut self, signal: Signal) -> Result<()> {
        let number = self.child.id() as i32;
        if self.child.try_wait()?.is_none() {
            let process = Pid::from_raw(number).context("a process has a number")?;
            kill_process(process, signal)?;
        }
        let until = Instant::now() + END_MAX;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > until {
                self.child.kill()?;
                self.child.wait()?;
                self.stop.server_ended(number);
                bail!("mariadbd did not end by itself");
            }
            std::thread::sleep(POLL);
        }
        self.stop.server_ended(number);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only after an error: its data go too, it need not write them.
        if matches!(self.child.try_wait(), Ok(None)) {
            // Nobody is there to be told.
            let _ = self.terminate(Signal::KILL);
        }
    }
}

fn arguments(settings: &Settings) -> Vec<String> {
    let method = if settings.direct { "O_DIRECT" } else { "fsync" };
    vec![
        "--skip-networking".to_owned(),
        // Nobody else reaches the socket; no user is looked up.
        "--skip-grant-tables".to_owned(),
        // As our log: of the engine alone.
        "--skip-log-bin".to_owned(),
        format!("--innodb-buffer-pool-size={}", settings.cache_bytes),
        format!("--innodb-log-file-size={}", settings.log_bytes),
        format!("--innodb-flush-method={method}"),
        format!(
            "--innodb-flush-log-at-trx-commit={}",
            u8::from(settings.durable)
        ),
        // Cold means cold.
        "--innodb-buffer-pool-load-at-startup=0".to_owned(),
        "--innodb-buffer-pool-dump-at-shutdown=0".to_owned(),
        // The defaults, 200 and 2000, are made for one disk.
        "--innodb-io-capacity=10000".to_owned(),
        "--innodb-io-capacity-max=20000".to_owned(),
        "--secure-file-priv=".to_owned(),
        "--max-allowed-packet=64M".to_owned(),
        "--max-connections=100".to_owned(),
    ]
}

/// A program of MariaDB's in a process group of its own, so that Ctrl-C reaches
/// it through this program alone; it ends with this program, however that ends.
fn command(program: &str, directory: &Path, data: &Path) -> Result<Command> {
    let program = find(program).with_context(|| format!("there is no {program}: {INSTALL}"))?;
    let mut command = match find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    command
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--tmpdir={}", directory.display()))
        .current_dir(directory)
        .process_group(0);
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    Ok(command)
}

fn install(directory: &Path, data: &Path) -> Result<()> {
    let mut command = command("mariadb-install-db", directory, data)?;
    command.args([
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        "--innodb-buffer-pool-size=16M",
    ]);
    let output = command.output().context("mariadb-install-db")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        bail!("mariadb-install-db failed: {last}");
    }
    Ok(())
}

/// A program in `PATH`, or where servers are.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.push("/usr/sbin".into());
    places.push("/usr/local/sbin".into());
    places
        .into_iter()
        .map(|place| place.join(program))
        .find(|path| path.is_file())
}
