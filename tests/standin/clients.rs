//! Judges from outside: Discord's own description of its interface, and a client library in another
//! language.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::house::{House, INTENTS, PATIENCE, answers_with};

/// Returns the Python that has what the tests need.
fn python(default: &str) -> PathBuf {
    std::env::var_os("INNKEEPER_PYTHON").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join(default),
        PathBuf::from,
    )
}

/// Sends one request of each kind that a bot makes.
async fn make_traffic(house: &House) {
    house.register().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    let guild = house.guild;
    let channel = house.channel("data").await;
    let question = house.say("ada", "data", "q").await;
    for mut action in [
        json!({"do": "say", "text": "re", "reply_to": question}),
        json!({"do": "say", "text": "x", "files": [{"name": "a.csv", "base64": "YSxi"}]}),
        json!({"do": "sticker"}),
        json!({"do": "voice"}),
        json!({"do": "poll", "question": "tea?"}),
    ] {
        action["as"] = json!("ben");
        action["in"] = json!("data");
        house.act(action).await;
    }
    let ada = house.own("/standin/world").await["guilds"][0]["members"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    for path in [
        "/users/@me",
        "/applications/@me",
        "/oauth2/applications/@me",
        "/gateway",
        "/gateway/bot",
        &format!("/guilds/{guild}"),
        &format!("/guilds/{guild}/members/{ada}"),
        &format!("/guilds/{guild}/channels"),
        &format!("/guilds/{guild}/roles"),
        &format!("/channels/{channel}"),
        &format!("/applications/{}/guilds/{guild}/commands", house.bot),
        &format!("/applications/{}/commands", house.bot),
    ] {
        assert_eq!(house.rest("GET", path, Value::Null).await.0, 200, "{path}");
    }
    let none = json!({"parse": []});
    let thread = format!("/channels/{question}");
    let button = json!({"type": 2, "style": 4, "label": "Stop", "custom_id": "stop"});
    let rows = json!([{"type": 1, "components": [button]}]);
    let body = json!({"content": "live", "components": rows, "allowed_mentions": none, "nonce": "n1", "enforce_nonce": true});
    for (method, path, body, status) in [
        (
            "POST",
            format!("/channels/{channel}/messages/{question}/threads"),
            json!({"name": "t"}),
            201,
        ),
        ("POST", format!("{thread}/messages"), body, 200),
        (
            "POST",
            format!("/channels/{channel}/messages"),
            json!({"content": "re", "allowed_mentions": none,
            "embeds": [{"title": "t", "description": "d"}], "message_reference": {"message_id": question}}),
            200,
        ),
        (
            "PUT",
            format!("/channels/{channel}/messages/{question}/reactions/%F0%9F%91%80/@me"),
            Value::Null,
            204,
        ),
        (
            "GET",
            format!("/channels/{channel}/messages"),
            Value::Null,
            200,
        ),
        ("GET", thread.clone(), Value::Null, 200),
        ("GET", format!("{thread}/thread-members"), Value::Null, 200),
        (
            "PUT",
            format!("{thread}/thread-members/@me"),
            Value::Null,
            204,
        ),
        (
            "GET",
            format!("/guilds/{guild}/threads/active"),
            Value::Null,
            200,
        ),
        (
            "PATCH",
            thread.clone(),
            json!({"name": "other", "archived": true}),
            200,
        ),
        (
            "GET",
            format!("/channels/{channel}/threads/archived/public"),
            Value::Null,
            200,
        ),
        (
            "POST",
            format!("/channels/{channel}/threads"),
            json!({"name": "alone", "type": 11}),
            201,
        ),
        (
            "POST",
            format!("/channels/{channel}/typing"),
            Value::Null,
            204,
        ),
    ] {
        let (given, answer) = house.rest(method, &path, body).await;
        assert_eq!(given, status, "{method} {path}: {answer}");
    }
    let asked = house.act(
        json!({"as": "ada", "do": "command", "in": "data", "name": "grant",
        "options": {"member": "ben", "project": "x"}}),
    );
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        let serenity::all::Event::InteractionCreate(ref create) = event else {
            unreachable!()
        };
        let hook = format!("/webhooks/{}/{}", house.bot, create.interaction.token());
        let answer = answers_with(
            house,
            event,
            4,
            json!({"content": "done", "allowed_mentions": none}),
        )
        .await;
        assert_eq!(answer.0, 204);
        let more = json!({"content": "more", "allowed_mentions": none});
        assert_eq!(house.rest("POST", &hook, more.clone()).await.0, 200);
        assert_eq!(
            house
                .rest("PATCH", &format!("{hook}/messages/@original"), more)
                .await
                .0,
            200
        );
        assert_eq!(
            house
                .rest("GET", &format!("{hook}/messages/@original"), Value::Null)
                .await
                .0,
            200
        );
    };
    tokio::join!(asked, answered);
}

#[tokio::test]
async fn every_answer_fits_discords_own_description() {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/tools/check_discord_requests.py");
    let check = std::env::var_os("OPENAPI_CHECK").map_or(beside, PathBuf::from);
    if !check.exists() {
        eprintln!(
            "not judged: no checker at {}; OPENAPI_CHECK can name one",
            check.display()
        );
        return;
    }
    let house = House::open().await;
    make_traffic(&house).await;
    let lines = house
        .http
        .get(format!("{}/standin/requests", house.standin.url()))
        .send()
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let requests = folder.path().join("requests.jsonl");
    std::fs::write(&requests, lines.text().await.unwrap()).unwrap();
    let python = std::env::var_os("INNKEEPER_PYTHON").unwrap_or("python3".into());
    let judged = Command::new(python)
        .arg(check)
        .arg(requests)
        .arg("--answers")
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&judged.stdout);
    assert!(
        judged.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&judged.stderr)
    );
    assert!(said.contains("0 faults"), "{said}");
}

#[tokio::test]
async fn a_bot_in_discord_py_works_against_it() {
    let house = House::open().await;
    let python = python("target/tools/venv/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/standin_client.py");
    let mut command = Command::new(&python);
    command
        .arg(script)
        .arg(house.standin.url())
        .arg(&house.token)
        .kill_on_drop(true);
    let spawned = command.stdout(Stdio::piped()).spawn();
    let mut bot = spawned.unwrap_or_else(|error| {
        panic!(
            "{} cannot be run ({error}): set INNKEEPER_PYTHON to a Python that has discord.py",
            python.display()
        )
    });
    let mut lines = BufReader::new(bot.stdout.take().unwrap()).lines();
    let mut says = async |expected: &str| {
        let line = tokio::time::timeout(PATIENCE, lines.next_line())
            .await
            .expect(expected)
            .unwrap();
        assert_eq!(line.as_deref(), Some(expected), "see the errors above");
    };
    says("registered").await;
    says("ready").await;
    house.say("ada", "data", "@innkeeper hello").await;
    says("replied").await;
    says("opened a thread").await;
    let answer = house.act(json!({"as": "ben", "do": "command", "in": "data", "name": "echo", "options": {"text": "ahoy"}})).await;
    assert_eq!(
        (&answer["reply"]["content"], &answer["reply"]["ephemeral"]),
        (&json!("ahoy"), &json!(true))
    );
    says("answered the command").await;
    let ended = tokio::time::timeout(Duration::from_secs(20), bot.wait())
        .await
        .expect("the bot ends")
        .unwrap();
    assert!(ended.success());

    let world = house.own("/standin/world").await;
    let data = &world["guilds"][0]["channels"][1];
    assert_eq!(
        (
            &data["messages"][1]["content"],
            &data["messages"][1]["edits"]
        ),
        (&json!("hello again"), &json!(1))
    );
    assert_eq!(
        data["threads"][0]["messages"][0]["attachments"][0]["name"],
        "me.txt"
    );
    assert_eq!(
        data["messages"][0]["reactions"][0]["users"],
        json!(["innkeeper"])
    );
}
