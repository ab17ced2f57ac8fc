//! The sandbox behind a real open-terminal server, which the tests start themselves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail; clippy knows only functions marked as tests"
)]

mod sandbox_checks;

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use innkeeper::domain::ids::AccountId;
use innkeeper::driver::turn_directory::RunState;
use innkeeper::sandbox::open_terminal::OpenTerminal;
use innkeeper::sandbox::{Confinement, Exec, Sandbox, SandboxError};
use sandbox_checks::{Place, agent, processes_with, trace};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const KEY: &str = "a-key-for-tests";

/// A server in a directory of its own.
struct Server {
    directory: tempfile::TempDir,
    port: u16,
    multi_user: bool,
    child: Child,
    account: AccountId,
}

impl Server {
    async fn start(multi_user: bool) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let child = launch(directory.path(), port, multi_user);
        let account = AccountId(format!("t{:07x}", rand::random::<u32>() >> 4));
        let server = Server {
            directory,
            port,
            multi_user,
            child,
            account,
        };
        server.answers().await;
        server
    }

    /// Kills the server without a warning and starts it again at the same place.
    async fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = launch(self.directory.path(), self.port, self.multi_user);
        self.answers().await;
    }

    async fn answers(&self) {
        let began = Instant::now();
        let url = format!("http://127.0.0.1:{}/health", self.port);
        while reqwest::get(&url).await.is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "the server did not start"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn place(&self) -> Place {
        let url = format!("http://127.0.0.1:{}", self.port);
        Place {
            sandbox: Arc::new(OpenTerminal::new(&url, KEY.into()).unwrap()),
            account: self.account.clone(),
            own: self.multi_user,
        }
    }

    /// Returns what the server has written into its log files, of processes and of itself.
    fn logs(&self) -> String {
        let mut text = String::new();
        let mut todo = vec![
            self.directory.path().join("logs"),
            self.directory.path().join("said"),
        ];
        while let Some(path) = todo.pop() {
            match std::fs::read_dir(&path) {
                Ok(entries) => todo.extend(entries.map(|entry| entry.unwrap().path())),
                Err(_) => text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap())),
            }
        }
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.multi_user {
            // Its group has the server's user in it, so it does not go with the account.
            for program in [&["userdel", "-r"][..], &["groupdel"]] {
                let _ = Command::new(program[0])
                    .args(&program[1..])
                    .arg(&self.account.0)
                    .stderr(Stdio::null())
                    .status();
            }
        }
    }
}

fn launch(directory: &Path, port: u16, multi_user: bool) -> Child {
    let said = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join("said"))
        .unwrap();
    let home = directory.join("home");
    std::fs::create_dir_all(&home).unwrap();
    Command::new(program())
        .args(["run", "--host", "127.0.0.1", "--port", &port.to_string()])
        .env("OPEN_TERMINAL_API_KEY", KEY)
        .env("OPEN_TERMINAL_MULTI_USER", multi_user.to_string())
        .env("OPEN_TERMINAL_LOG_DIR", directory.join("logs"))
        .env("HOME", &home)
        // The server adds this user to each account's group; without it, it looks for one called `user`.
        .env("USER", user())
        .env("OPERATORS_OWN", "nobody's business")
        .current_dir(&home)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(said.try_clone().unwrap())
        .stderr(said)
        .spawn()
        .unwrap()
}

fn user() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap();
    user.map_or_else(|| "user".to_owned(), |user| user.name)
}

fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("INNKEEPER_OPEN_TERMINAL") {
        return named.into();
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/venv/bin/open-terminal");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join("open-terminal"))
        .chain([own])
        .find(|program| program.is_file())
        .expect("open-terminal is not installed: run tests/all, which installs it")
}

/// Accounts of their own need a server that may make them.
fn can_make_users() -> bool {
    nix::unistd::geteuid().is_root()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_promise_holds_where_each_account_is_a_user() {
    if !can_make_users() {
        eprintln!("not root: a multi-user server cannot be tried");
        return;
    }
    let server = Server::start(true).await;
    let place = server.place();
    let probe = place.sandbox.probe(&place.account).await.unwrap();
    assert_eq!(probe.home, format!("/home/{}", place.account));
    assert_eq!(probe.confinement, Confinement::Works);
    sandbox_checks::all(&place).await;
    nothing_that_varies_is_written_down(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_promise_holds_where_all_are_one_user() {
    let server = Server::start(false).await;
    let place = server.place();
    sandbox_checks::all(&place).await;
    nothing_that_varies_is_written_down(&server).await;
    // Killing everything of an account must not reach the server, whose user it shares.
    let run = place.run();
    place
        .turns()
        .start(&run, &agent("echo ready; cat", "x"))
        .await
        .unwrap();
    place.until(&run, "ready").await;
    place.turns().kill(&run, true).await.unwrap();
    assert_eq!(place.text("echo alive").await, "alive\n");
}

async fn nothing_that_varies_is_written_down(server: &Server) {
    let place = server.place();
    let run = place.run();
    let words: Vec<String> = (0..4).map(|_| trace()).collect();
    let mut start = agent("echo ready; cat", &words[0]);
    start.argv.push(words[1].clone());
    start.secrets = vec![("TOKEN".to_owned(), words[2].clone().into())];
    start.first_line = format!("{{\"say\":\"{}\"}}", words[3]);
    place.turns().start(&run, &start).await.unwrap();
    place.until(&run, "ready").await;
    place.turns().kill(&run, false).await.unwrap();
    let list = reqwest::Client::new()
        .get(format!("http://127.0.0.1:{}/execute", server.port))
        .bearer_auth(KEY)
        .header("X-User-Id", &place.account.0)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let logs = server.logs();
    assert!(list.contains("innkeeper-exec") && logs.contains("innkeeper-exec"));
    for word in [&words[0], &words[1], &words[2]] {
        assert!(!list.contains(word.as_str()) && !logs.contains(word.as_str()));
    }
    // The stream is what the agent says; what it was told is in no command.
    assert!(!list.contains(&words[3]));
    for word in ["nobody's business", KEY] {
        assert!(!place.text("env").await.contains(word));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_the_servers_sudden_death() {
    let mut server = Server::start(can_make_users()).await;
    let place = server.place();
    let run = place.run();
    let word = trace();
    let script = "echo 'begun é'; cat; echo 'over €'; exit 4";
    place
        .turns()
        .start(&run, &agent(script, &word))
        .await
        .unwrap();
    let offset = place.until(&run, "first").await;
    let turns = place.turns();
    let (followed, ()) = tokio::join!(turns.follow(&run, offset), server.restart());
    assert!(
        matches!(followed, Err(SandboxError::Away(_))),
        "{followed:?}"
    );
    assert!(!processes_with(&word).is_empty());
    // The same client goes on: connections that died are not held against the new server.
    turns.start(&run, &agent(script, &word)).await.unwrap();
    assert_eq!(
        turns.follow(&run, 0).await.unwrap().state,
        RunState::Running
    );
    turns.close_input(&run).await.unwrap();
    let (out, code) = place.rest(&run, offset).await;
    assert_eq!((out.as_slice(), code), ("over €\n".as_bytes(), Some(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_reply_was_lost_costs_no_second_agent() {
    let server = Server::start(can_make_users()).await;
    let place = server.place();
    let url = format!("http://127.0.0.1:{}", deaf_proxy(server.port).await);
    let deaf = Place {
        sandbox: Arc::new(OpenTerminal::new(&url, KEY.into()).unwrap()),
        ..place.clone()
    };
    let run = place.run();
    let mut start = agent("echo $$ >>started; echo ready; cat", &trace());
    start.workdir = format!("~/lost-{}", run.turn);
    let lost = deaf.turns().start(&run, &start).await;
    assert!(lost.is_err(), "{lost:?}");
    place.turns().start(&run, &start).await.unwrap();
    place.until(&run, "ready").await;
    place.turns().close_input(&run).await.unwrap();
    assert_eq!(place.rest(&run, 0).await.1, Some(0));
    let count = place
        .text(&format!("wc -l <lost-{}/started", run.turn))
        .await;
    assert_eq!(count.trim(), "1");
}

/// Passes requests on and hangs up where the answer would begin.
async fn deaf_proxy(to: u16) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut inward, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut outward = tokio::net::TcpStream::connect(("127.0.0.1", to))
                    .await
                    .unwrap();
                let (mut from, _hold) = inward.split();
                let (mut back, mut forth) = outward.split();
                let mut first = [0];
                tokio::select! {
                    _ = tokio::io::copy(&mut from, &mut forth) => {}
                    _ = back.read(&mut first) => {}
                }
            });
        }
    });
    port
}

/// Answers every request with the same bytes.
async fn answering(answer: &'static [u8]) -> Place {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 65536];
                let _ = stream.read(&mut asked).await;
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    Place {
        sandbox: Arc::new(
            OpenTerminal::new(&format!("http://127.0.0.1:{port}"), KEY.into()).unwrap(),
        ),
        account: AccountId("k3x9abcd".to_owned()),
        own: false,
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_told_from_one_that_refuses() {
    type Is = fn(&SandboxError) -> bool;
    let away: Is = |error| matches!(error, SandboxError::Away(_));
    let refused: Is = |error| matches!(error, SandboxError::Refused(_));
    let failed: Is = |error| matches!(error, SandboxError::Failed(_));
    let answers: [(&'static [u8], Is); 8] = [
        (
            b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 6\r\n\r\n<html>",
            away,
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", away),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 600\r\n\r\n{\"id\":",
            away,
        ),
        (
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            away,
        ),
        (b"", away),
        (
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            away,
        ),
        (
            b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}",
            refused,
        ),
        (
            b"HTTP/1.1 422 Unprocessable\r\ncontent-length: 6\r\n\r\nodd id",
            failed,
        ),
    ];
    for (answer, is) in answers {
        let error = answering(answer).await.exec("true").await.unwrap_err();
        assert!(
            is(&error),
            "{:?}: {error:?}",
            String::from_utf8_lossy(answer)
        );
        assert!(!format!("{error} {error:?}").contains(KEY));
    }
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let nobody = OpenTerminal::new(&format!("http://127.0.0.1:{port}"), KEY.into()).unwrap();
    let error = nobody
        .probe(&AccountId("k3x9abcd".to_owned()))
        .await
        .unwrap_err();
    assert!(away(&error), "{error:?}");
}

#[tokio::test]
async fn an_answer_without_end_is_cut() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 65536]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b' '; 65536]).await.is_ok() {}
        }
    });
    let sandbox = OpenTerminal::new(&format!("http://127.0.0.1:{port}"), KEY.into()).unwrap();
    let exec = Exec {
        script: "true".to_owned(),
        vars: vec![],
        limit: Duration::from_secs(5),
        most: 1000,
    };
    let error = sandbox
        .exec(&AccountId("k3x9abcd".to_owned()), exec)
        .await
        .unwrap_err();
    assert!(matches!(error, SandboxError::TooMuch(1000)), "{error:?}");
}
