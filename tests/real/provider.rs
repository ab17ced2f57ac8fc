//! The fake provider, as a process of its own.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The provider's real key: nobody but the bot may ever see it.
pub(crate) const KEY: &str = "sk-the-key-that-never-leaves-the-bot";

/// A provider that answers as its scenario says, and ends with the test.
#[derive(Debug)]
pub(crate) struct Provider {
    url: String,
    client: reqwest::Client,
    _child: Child,
}

impl Provider {
    /// Starts it; what does not show [`KEY`] is refused.
    pub(crate) async fn start(mut scenario: Value) -> Provider {
        scenario["require_key"] = KEY.into();
        let mut child = Command::new("python3")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/fake_anthropic.py"))
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python3 is needed for the fake provider");
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).await.unwrap();
        let url = line.trim().replace("listening on ", "");
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let told = client
            .post(format!("{url}/__fake/scenario"))
            .json(&scenario)
            .send();
        assert!(told.await.unwrap().status().is_success());
        Provider {
            url,
            client,
            _child: child,
        }
    }

    /// Lets it answer otherwise from now on.
    #[allow(dead_code, reason = "not every test changes the story")]
    pub(crate) async fn answers_now(&self, mut scenario: Value) {
        scenario["require_key"] = KEY.into();
        let told = self
            .client
            .post(format!("{}/__fake/scenario", self.url))
            .json(&scenario)
            .send();
        assert!(told.await.unwrap().status().is_success());
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the bodies of the requests for answers that arrived so far.
    pub(crate) async fn asked(&self) -> Vec<Value> {
        let seen = self.seen().await.into_iter();
        seen.map(|one| one["body"].clone()).collect()
    }

    /// Returns when each of them arrived, in milliseconds since 1970.
    pub(crate) async fn asked_at(&self) -> Vec<u64> {
        let seen = self.seen().await.into_iter();
        seen.map(|one| (one["t"].as_f64().unwrap() * 1000.0) as u64)
            .collect()
    }

    /// Returns what it would bill for each request: its usage, where it came to the end, else its input; and how many
    /// characters of output it sent of those that were cut.
    #[allow(dead_code, reason = "not every test is about money")]
    pub(crate) async fn bills(&self) -> Vec<(Value, Option<u64>)> {
        let seen = self.seen().await.into_iter();
        let billed = seen.filter(|one| one["usage"].is_object());
        billed
            .map(|one| {
                let cut = one["ended"] != true;
                (
                    one["usage"].clone(),
                    cut.then(|| one["sent"].as_u64().unwrap()),
                )
            })
            .collect()
    }

    async fn seen(&self) -> Vec<Value> {
        let url = format!("{}/__fake/requests", self.url);
        let seen = self.client.get(url).send().await.unwrap();
        let seen: Vec<Value> = seen.json().await.unwrap();
        seen.into_iter()
            .filter(|one| one["method"] == "POST")
            .collect()
    }
}

/// Returns a turn of a scenario in which the agent runs a command.
pub(crate) fn bash(command: &str) -> Value {
    calls("Bash", serde_json::json!({"command": command}))
}

/// Returns a turn in which the agent calls a tool.
pub(crate) fn calls(tool: &str, input: Value) -> Value {
    serde_json::json!({"blocks": [{"type": "tool_use", "name": tool, "input": input}]})
}

/// Returns a turn in which the agent says something.
pub(crate) fn says(text: &str) -> Value {
    serde_json::json!({"blocks": [{"type": "text", "text": text}]})
}
