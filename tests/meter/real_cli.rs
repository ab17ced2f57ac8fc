//! The real agent's program, with the meter in between: what it says it cost is what the meter counted.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use innkeeper::domain::money::Usd;
use innkeeper::meter::Lease;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use super::house::{Guest, House, Told, lease};

/// The fake provider, ended with the test.
struct Provider {
    address: SocketAddr,
    _child: Child,
}

impl Provider {
    async fn start(scenario: Value) -> Provider {
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
        let address = line
            .trim()
            .rsplit("http://")
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let provider = Provider {
            address,
            _child: child,
        };
        let url = provider.url("/__fake/scenario");
        let answer = client().post(url).json(&scenario).send().await.unwrap();
        assert!(answer.status().is_success());
        provider
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the bodies of the requests for answers that arrived.
    async fn asked(&self) -> Vec<Value> {
        let seen = client()
            .get(self.url("/__fake/requests"))
            .send()
            .await
            .unwrap();
        let seen: Vec<Value> = seen.json().await.unwrap();
        let posts = seen.into_iter().filter(|one| one["method"] == "POST");
        posts.map(|one| one["body"].clone()).collect()
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Returns where the agent's program is.
fn program() -> PathBuf {
    const NAME: &str = "claude";
    if let Some(named) = std::env::var_os("INNKEEPER_CLAUDE") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/tools/npm/node_modules/@anthropic-ai/claude-code-linux-x64")
        .join(NAME);
    let found = std::env::split_paths(&path)
        .map(|directory| directory.join(NAME))
        .chain([own])
        .find(|program| program.is_file());
    found.expect("the agent's program is missing: run tests/all, which installs it, or name it in INNKEEPER_CLAUDE")
}

/// Runs the agent's program through the meter and returns its result.
async fn run(guest: &Guest, model: &str, tools: &str) -> Value {
    run_with(guest, model, tools, "{}").await
}

/// Likewise, with settings.
async fn run_with(guest: &Guest, model: &str, tools: &str, settings: &str) -> Value {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(program())
        .args([
            "--print",
            "--output-format",
            "json",
            "--model",
            model,
            "--tools",
            tools,
        ])
        .args(["--allowedTools", "Bash(echo:*)"])
        .args(["--settings", settings])
        .current_dir(home.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .env("ANTHROPIC_BASE_URL", &guest.base)
        .env("ANTHROPIC_AUTH_TOKEN", &guest.token)
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"hello")
        .await
        .unwrap();
    let output = child.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(&said)
        .unwrap_or_else(|_| panic!("{said}\n{}", String::from_utf8_lossy(&output.stderr)))
}

async fn guest_of(house: &House, hold: Usd, family: &str) -> Guest {
    house.admit(&Lease {
        families: Some(vec![family.to_owned()]),
        ..lease(1, hold)
    })
}

/// Numbers that leave fractions of a micro-dollar in every class.
fn usage() -> Value {
    json!({
        "input_tokens": 1237,
        "output_tokens": 211,
        "cache_read_input_tokens": 48_611,
        "cache_creation_input_tokens": 7013,
        "cache_creation": {"ephemeral_5m_input_tokens": 3010, "ephemeral_1h_input_tokens": 4003},
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
    })
}

#[tokio::test]
async fn the_meter_and_the_agents_program_agree_to_the_micro_dollar() {
    for family in ["haiku", "sonnet", "opus", "fable"] {
        let echo = |word: &str| {
            let call = json!({"type": "tool_use", "name": "Bash", "input": {"command": format!("echo {word}")}});
            json!({"blocks": [call]})
        };
        let answer =
            json!({"blocks": [{"type": "text", "text": "Done."}], "usage": {"output_tokens": 3}});
        let turns = json!([echo("one"), echo("two"), answer]);
        let provider = Provider::start(json!({"turns": turns, "usage": usage()})).await;
        let house = House::start(&provider.url("")).await;
        let guest = guest_of(&house, Usd(100_000_000), family).await;
        let result = run(&guest, family, "Bash").await;
        let theirs = Usd::from_dollars(result["total_cost_usd"].as_f64().unwrap());
        let closed = house.meter.close(guest.turn).unwrap();
        assert_eq!(result["is_error"], false, "{result}");
        assert_eq!(
            (closed.spent, closed.requests, closed.estimated),
            (theirs, 3, false),
            "{family}: {result}"
        );
    }
}

#[tokio::test]
async fn sub_agents_are_counted_too() {
    let call = json!({"type": "tool_use", "name": "Agent",
        "input": {"description": "look", "prompt": "look around carefully", "subagent_type": "general-purpose"}});
    let scenario = json!({
        "routes": [{"when": {"first_user_contains": "look around carefully"},
            "turns": [{"blocks": [{"type": "text", "text": "Seen."}]}]}],
        "turns": [{"blocks": [call]}, {"blocks": [{"type": "text", "text": "Done."}]}],
        "usage": usage(),
    });
    let provider = Provider::start(scenario).await;
    let house = House::start(&provider.url("")).await;
    let guest = guest_of(&house, Usd(100_000_000), "sonnet").await;
    let result = run(&guest, "sonnet", "Agent").await;
    let closed = house.meter.close(guest.turn).unwrap();
    let theirs = Usd::from_dollars(result["total_cost_usd"].as_f64().unwrap());
    assert_eq!((closed.spent, closed.requests), (theirs, 3), "{result}");
}

#[tokio::test]
async fn a_used_up_hold_is_not_tried_again_by_the_agents_program() {
    let provider = Provider::start(json!({})).await;
    let mut house = House::start(&provider.url("")).await;
    let guest = guest_of(&house, Usd(500), "haiku").await;
    let result = run(&guest, "haiku", "").await;
    let said = result["result"].as_str().unwrap();
    assert!(
        said.contains("the limit of this turn is used up"),
        "{result}"
    );
    assert_eq!(provider.asked().await, Vec::<Value>::new());
    house.hears(|told| told == [Told::Limit(guest.turn)]).await;
}

#[tokio::test]
async fn a_request_with_lowered_output_is_still_the_agents_request() {
    let provider = Provider::start(json!({})).await;
    let house = House::start(&provider.url("")).await;
    let guest = guest_of(&house, Usd(20_000), "haiku").await;
    let result = run(&guest, "haiku", "").await;
    assert_eq!(result["result"], "OK.", "{result}");
    let asked = provider.asked().await;
    let (most, budget) = (
        &asked[0]["max_tokens"],
        &asked[0]["thinking"]["budget_tokens"],
    );
    let (most, budget) = (most.as_u64().unwrap(), budget.as_u64().unwrap());
    assert!(
        most < 4_000 && budget >= 1_024 && budget < most,
        "{most} {budget}"
    );
}

#[tokio::test]
async fn a_model_that_the_turn_may_not_use_never_reaches_the_provider() {
    let provider = Provider::start(json!({})).await;
    let house = House::start(&provider.url("")).await;
    let guest = guest_of(&house, Usd(1_000_000), "haiku").await;
    let result = run(&guest, "opus", "").await;
    assert_eq!(result["is_error"], true, "{result}");
    assert_eq!(provider.asked().await, Vec::<Value>::new());
}

#[tokio::test]
async fn what_the_agents_program_asks_beside_the_talk_uses_the_models_of_the_turn() {
    let provider = Provider::start(json!({})).await;
    let house = House::start(&provider.url("")).await;
    let guest = guest_of(&house, Usd(1_000_000), "sonnet").await;
    // A hook that asks a model takes the small one, as every call in the background does.
    let hook = json!({"hooks": [{"type": "prompt", "prompt": "is this fine? $ARGUMENTS"}]});
    let settings = json!({"hooks": {"UserPromptSubmit": [hook]}}).to_string();
    let result = run_with(&guest, "sonnet", "", &settings).await;
    let asked = provider.asked().await;
    let models: Vec<&str> = asked
        .iter()
        .filter_map(|ask| ask["model"].as_str())
        .collect();
    assert_eq!(models, ["claude-sonnet-5"; 2], "{result}");
}

#[tokio::test]
async fn an_answer_that_is_cut_is_not_asked_for_again() {
    let scenario = json!({"usage": {"input_tokens": 900_000}, "repeat_last": true,
        "turns": [{"blocks": [{"type": "text", "text": "{{repeat:word :2000}}"}], "chunk_delay_ms": 5}]});
    let provider = Provider::start(scenario).await;
    let mut house = House::start(&provider.url("")).await;
    let guest = guest_of(&house, Usd(50_000), "haiku").await;
    let result = run(&guest, "haiku", "").await;
    let said = result["result"].as_str().unwrap();
    assert!(
        said.contains("the limit of this turn is used up"),
        "{result}"
    );
    assert_eq!(provider.asked().await.len(), 1);
    house
        .hears(|told| told.contains(&Told::Limit(guest.turn)))
        .await;
    let closed = house.meter.close(guest.turn).unwrap();
    assert!(
        closed.estimated && closed.spent >= Usd(900_000),
        "{closed:?}"
    );
}
