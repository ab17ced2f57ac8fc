//! The program with what it cannot use: the code that it ends with, the sentence with the remedy, and no secret in it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail loudly"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use innkeeper::standin::{Standin, World};
use innkeeper::store::Store;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncBufReadExt as _;
use tokio::process::{Child, Command};

/// How long the program may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

const SECRET: &str = "MTE1NjI3ODkwMTIzNDU2Nzg5MA.GaBcDe.this-is-the-secret-part-of-a-token";

/// What the program gave.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

/// A folder with a configuration.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn with(text: &str) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("config")).unwrap();
        fs::write(folder.path().join("config/innkeeper.toml"), text).unwrap();
        Desk { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_innkeeper"));
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn runs(&self, words: &[&str]) -> Ended {
        let output = tokio::time::timeout(PATIENCE, self.command(words).output())
            .await
            .expect("the program ends in time")
            .unwrap();
        let ended = Ended {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        let told = format!("{}{}", ended.out, ended.err);
        for secret in ["this-is-the-secret-part", "hush-hush"] {
            assert!(!told.contains(secret), "a secret is told: {told}");
        }
        ended
    }
}

/// Returns a configuration that holds, at this address.
fn whole(url: &str, token: &str, folder: &Path) -> String {
    format!(
        r#"
[discord]
token = "{token}"
api_url = "{url}"
guilds = ["1213402987654217728"]
owners = ["302050872383242240"]
[store]
path = "{}"
[sandbox]
backend = "local"
[agent]
command = "sh"
confine = "off"
[[project]]
slug = "site"
"#,
        folder.join("store").display()
    )
}

/// Starts a stand-in and writes a configuration for it, changed by `change`.
async fn beside_a_standin(
    world: impl FnOnce(&mut Value),
    change: impl FnOnce(String) -> String,
) -> (Standin, Desk) {
    let mut file = json!({
        "bot": {"name": "innkeeper"},
        "guilds": [{"name": "Inn", "id": "1213402987654217728", "owner": "olga",
                    "members": [{"name": "olga", "id": "302050872383242240"}],
                    "channels": [{"name": "general"}]}]
    });
    world(&mut file);
    let world = World::from_json(&file.to_string()).unwrap();
    let token = world.bot_token().to_owned();
    let standin = Standin::start("127.0.0.1:0".parse().unwrap(), world)
        .await
        .unwrap();
    let desk = Desk::with("");
    let text = change(whole(&standin.url(), &token, desk.folder.path()));
    fs::write(desk.path("config/innkeeper.toml"), text).unwrap();
    (standin, desk)
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_ends_with_2_and_names_the_key() {
    let whole = whole("http://127.0.0.1:1", SECRET, Path::new("data"));
    let table: [(&str, String, &[&str]); 8] = [
        (
            "empty",
            String::new(),
            &[
                "discord.token",
                "discord.guilds",
                "discord.owners",
                "sandbox.backend",
            ],
        ),
        (
            "a wrong type",
            whole.replace("guilds = [\"1213402987654217728\"]", "guilds = \"many\""),
            &["discord.guilds"],
        ),
        (
            "an unknown key",
            whole.replace("owners =", "ownres ="),
            &["discord.ownres", "do you mean owners?"],
        ),
        (
            "an unknown section",
            whole.replace("[sandbox]", "[sandbocks]"),
            &["sandbocks", "do you mean [sandbox]?"],
        ),
        (
            "no server",
            whole.replace("guilds = [\"1213402987654217728\"]", "guilds = []"),
            &["discord.guilds"],
        ),
        ("no TOML", format!("{whole}\n[["), &["innkeeper.toml"]),
        (
            "a backend that is none",
            whole.replace("backend = \"local\"", "backend = \"remote\""),
            &["sandbox.backend", "local", "open-terminal"],
        ),
        (
            "a secret given twice",
            whole.replace("[store]", "token_file = \"hush-hush\"\n[store]"),
            &["discord.token"],
        ),
    ];
    for (what, text, words) in table {
        let desk = Desk::with(&text);
        for command in [["run"].as_slice(), &["check"], &["check", "--json"]] {
            let ended = desk.runs(command).await;
            assert_eq!(ended.code, 2, "{what}, {command:?}: {ended:?}");
            let told = if command[0] == "run" {
                &ended.err
            } else {
                &ended.out
            };
            for word in words {
                assert!(told.contains(word), "{what}, {command:?}, {word}: {told}");
            }
        }
    }
}

#[tokio::test]
async fn a_token_that_discord_refuses_ends_with_3() {
    let (_standin, desk) = beside_a_standin(
        |_| {},
        |text| {
            let token = text.lines().find(|line| line.starts_with("token")).unwrap();
            text.replace(token, &format!("token = \"{SECRET}\""))
        },
    )
    .await;
    let ended = desk.runs(&["run"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.err.contains("discord refuses the token"), "{ended:?}");
    assert!(ended.err.contains("Developer Portal"), "{ended:?}");
    let ended = desk.runs(&["check"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.out.contains("Reset Token"), "{ended:?}");
}

#[tokio::test]
async fn a_missing_intent_ends_with_3_and_names_the_switch() {
    let (_standin, desk) = beside_a_standin(
        |world| world["bot"]["message_content"] = json!(false),
        |text| text,
    )
    .await;
    let ended = desk.runs(&["run"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.err.contains("Message Content Intent"), "{ended:?}");
    let ended = desk.runs(&["check", "--json"]).await;
    assert_eq!(ended.code, 3, "{ended:?}");
    let findings: Value = serde_json::from_str(&ended.out).unwrap();
    let faults: Vec<&Value> = findings
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["state"] == "fault")
        .collect();
    assert_eq!(faults.len(), 1, "{findings}");
    assert!(
        faults[0]["remedy"]
            .as_str()
            .unwrap()
            .contains("Message Content Intent"),
        "{findings}"
    );
}

#[tokio::test]
async fn check_is_content_with_what_holds() {
    let (_standin, desk) = beside_a_standin(|_| {}, |text| text).await;
    let ended = desk.runs(&["check"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("the token is that of"), "{ended:?}");
}

#[tokio::test]
async fn check_says_how_a_sandbox_that_cannot_be_used_is_mended() {
    let refusing = axum::Router::new().fallback(|| async { axum::http::StatusCode::UNAUTHORIZED });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, refusing).await });
    let open_terminal = |url: String| {
        move |text: String| {
            let lines =
                format!("backend = \"open-terminal\"\nurl = \"{url}\"\napi_key = \"hush-hush\"");
            text.replace("backend = \"local\"", &lines)
        }
    };
    // Where nobody listens, the program waits for the sandbox as long as a question may take.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = closed.local_addr().unwrap();
    drop(closed);
    for (url, remedy) in [
        (
            format!("http://{address}"),
            "set sandbox.api_key to the server's",
        ),
        (
            format!("http://{nobody}"),
            "start open-terminal as root with",
        ),
    ] {
        let (_standin, desk) = beside_a_standin(|_| {}, open_terminal(url)).await;
        let ended = desk.runs(&["check"]).await;
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.out.contains(remedy), "{ended:?}");
    }
}

#[tokio::test]
async fn check_says_what_is_missing_in_the_sandbox() {
    let (_standin, desk) = beside_a_standin(
        |_| {},
        |text| text.replace("command = \"sh\"", "command = \"no-such-agent\""),
    )
    .await;
    let ended = desk.runs(&["check"]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.out.contains("no-such-agent"), "{ended:?}");
    assert!(ended.out.contains("agent.command"), "{ended:?}");
}

#[tokio::test]
async fn check_says_when_commands_cannot_be_confined() {
    let (_standin, desk) = beside_a_standin(
        |_| {},
        |text| text.replace("confine = \"off\"", "confine = \"required\""),
    )
    .await;
    let ended = desk.runs(&["check", "--json"]).await;
    let findings: Value = serde_json::from_str(&ended.out).unwrap();
    let about = |finding: &&Value| {
        finding["area"] == "sandbox"
            && finding["what"]
                .as_str()
                .is_some_and(|what| what.contains("confined"))
    };
    let finding = findings.as_array().unwrap().iter().find(about).unwrap();
    // Whether they can depends on the machine; what is said must fit the code.
    match finding["state"].as_str().unwrap() {
        "ok" => assert_eq!(ended.code, 0, "{findings}"),
        _ => {
            assert_eq!(ended.code, 1, "{findings}");
            assert!(
                finding["remedy"]
                    .as_str()
                    .unwrap()
                    .contains("agent.confine"),
                "{findings}"
            );
        }
    }
}

#[tokio::test]
async fn a_store_that_another_process_works_with_ends_with_4() {
    let (standin, desk) = beside_a_standin(|_| {}, |text| text).await;
    let mut first: Child = desk.command(&["run"]).spawn().unwrap();
    let mut changes = standin.changes();
    let listening = async {
        while standin.listeners() == 0 {
            let _ = tokio::time::timeout(Duration::from_millis(100), changes.changed()).await;
        }
    };
    tokio::time::timeout(PATIENCE, listening).await.unwrap();
    let ended = desk.runs(&["run"]).await;
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(ended.err.contains("is in use"), "{ended:?}");
    let ended = desk.runs(&["store", "check"]).await;
    assert_eq!(ended.code, 4, "{ended:?}");
    let ended = desk.runs(&["check"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    // Asked to go, the first one goes by itself.
    let pid = i32::try_from(first.id().unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGTERM).unwrap();
    let mut lines = tokio::io::BufReader::new(first.stderr.take().unwrap()).lines();
    let mut told = String::new();
    while let Ok(Some(line)) = lines.next_line().await {
        told = told + &line + "\n";
    }
    let status = tokio::time::timeout(PATIENCE, first.wait()).await.unwrap();
    assert_eq!(status.unwrap().code(), Some(0), "{told}");
}

#[tokio::test]
async fn a_store_of_a_later_version_ends_with_4_and_stays_as_it_is() {
    let (_standin, desk) = beside_a_standin(|_| {}, |text| text).await;
    let store = desk.path("store");
    drop(Store::open(&store).unwrap());
    let later = sled::open(&store).unwrap();
    later.insert("version", &[99]).unwrap();
    later.flush().unwrap();
    drop(later);
    for command in [
        ["run"].as_slice(),
        &["store", "check"],
        &["store", "export", "-"],
    ] {
        let ended = desk.runs(command).await;
        assert_eq!(ended.code, 4, "{command:?}: {ended:?}");
        assert!(ended.err.contains("99"), "{command:?}: {ended:?}");
    }
    let ended = desk.runs(&["check"]).await;
    assert_eq!(ended.code, 4, "{ended:?}");
}

#[tokio::test]
async fn a_store_goes_out_into_a_file_and_comes_back_into_a_new_directory() {
    let (_standin, desk) = beside_a_standin(|_| {}, |text| text).await;
    let store = Store::open(&desk.path("store")).unwrap();
    store
        .put_guest(&innkeeper::domain::guest::Guest::new(
            innkeeper::domain::ids::MemberId(7),
        ))
        .unwrap();
    store.flush().await.unwrap();
    drop(store);
    let ended = desk.runs(&["store", "export", "dump.jsonl"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.err.contains("exported"), "{ended:?}");
    let ended = desk.runs(&["store", "import", "dump.jsonl"]).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("is not empty"), "{ended:?}");
    fs::rename(desk.path("store"), desk.path("old")).unwrap();
    let ended = desk.runs(&["store", "check"]).await;
    assert_ne!(ended.code, 0, "{ended:?}");
    assert!(ended.err.contains("there is no store"), "{ended:?}");
    let ended = desk.runs(&["store", "import", "dump.jsonl"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = desk.runs(&["store", "check"]).await;
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "the store is in order\n")
    );
    let again = desk.runs(&["store", "export", "-"]).await;
    let dump = fs::read_to_string(desk.path("dump.jsonl")).unwrap();
    assert_eq!(again.out, dump);
}
