//! REST is as strict as the real one: permissions, lengths, limits, nonces, threads, interactions.

use std::time::Duration;

use innkeeper::standin::World;
use serde_json::{Value, json};

use crate::house::{House, INTENTS, answers_with};

/// A world whose bot lacks permissions, and where channels of all kinds are.
fn odd_world(bot_permissions: &[&str]) -> World {
    let world = json!({
        "bot": { "name": "innkeeper" },
        "guilds": [{
            "name": "Odd", "owner": "olga", "everyone": [], "bot_permissions": bot_permissions, "upload_limit": 100,
            "members": [{ "name": "olga" }],
            "channels": [
                { "name": "text" }, { "name": "forum", "kind": "forum" }, { "name": "voice", "kind": "voice" },
                { "name": "secret", "overwrites": [{ "member": "innkeeper", "deny": ["VIEW_CHANNEL"] }] },
            ],
        }],
    });
    World::from_json(&world.to_string()).unwrap()
}

const SPEAKER: &[&str] = &["VIEW_CHANNEL", "SEND_MESSAGES", "READ_MESSAGE_HISTORY"];

impl House {
    /// Posts as the bot into a channel by its name and returns the answer.
    async fn post(&self, channel: &str, body: Value) -> (u16, Value) {
        let channel = self.channel(channel).await;
        self.rest("POST", &format!("/channels/{channel}/messages"), body)
            .await
    }
}

#[tokio::test]
async fn without_the_token_nothing_is_answered() {
    let house = House::open().await;
    let url = format!("{}/api/v10/users/@me", house.standin.url());
    for request in [
        house.http.get(&url),
        house.http.get(&url).header("authorization", "Bot wrong"),
    ] {
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    assert_eq!(
        house.rest("GET", "/users/@me", Value::Null).await.1["username"],
        "innkeeper"
    );
}

#[tokio::test]
async fn refusals_have_discords_codes() {
    let house = House::of(odd_world(SPEAKER)).await;
    let id = |name: &'static str| house.channel(name);
    let (text, secret) = (id("text").await, id("secret").await);
    let said = house
        .act(json!({"as": "olga", "do": "say", "in": "text", "text": "x"}))
        .await;
    let said = said["id"].as_str().unwrap();
    let cases = [
        (
            "POST",
            format!("/channels/{text}/messages"),
            json!({"content": " "}),
            400,
            50006,
        ),
        (
            "POST",
            format!("/channels/{text}/messages"),
            json!({"content": "x".repeat(2001)}),
            400,
            50035,
        ),
        (
            "POST",
            format!("/channels/{secret}/messages"),
            json!({"content": "x"}),
            403,
            50001,
        ),
        (
            "POST",
            "/channels/1/messages".to_owned(),
            json!({"content": "x"}),
            404,
            10003,
        ),
        (
            "POST",
            format!("/channels/{}/messages", id("forum").await),
            json!({"content": "x"}),
            400,
            40058,
        ),
        (
            "POST",
            format!("/channels/{}/messages/1/threads", id("voice").await),
            json!({"name": "x"}),
            400,
            50024,
        ),
        (
            "POST",
            format!("/channels/{text}/messages/{said}/threads"),
            json!({"name": "x"}),
            403,
            50013,
        ),
        (
            "PATCH",
            format!("/channels/{text}/messages/{said}"),
            json!({"content": "x"}),
            403,
            50005,
        ),
        (
            "PATCH",
            format!("/channels/{text}/messages/1"),
            json!({"content": "x"}),
            404,
            10008,
        ),
        (
            "DELETE",
            format!("/channels/{text}/messages/{said}"),
            Value::Null,
            403,
            50013,
        ),
        (
            "PUT",
            format!("/channels/{text}/messages/{said}/reactions/%F0%9F%91%80/@me"),
            Value::Null,
            403,
            50013,
        ),
        ("GET", "/guilds/1".to_owned(), Value::Null, 404, 10004),
        ("GET", "/nothing".to_owned(), Value::Null, 404, 0),
        (
            "POST",
            "/interactions/1/t/callback".to_owned(),
            json!({"type": 6}),
            404,
            10062,
        ),
    ];
    for (method, path, body, status, code) in cases {
        let (given, answer) = house.rest(method, &path, body).await;
        assert_eq!(
            (given, answer["code"].as_i64().unwrap()),
            (status, code),
            "{method} {path}: {answer}"
        );
    }
}

#[tokio::test]
async fn without_the_history_permission_the_list_is_empty_and_a_reply_fails() {
    let house = House::of(odd_world(&["VIEW_CHANNEL", "SEND_MESSAGES"])).await;
    let said = house
        .act(json!({"as": "olga", "do": "say", "in": "text", "text": "x"}))
        .await;
    let channel = house.channel("text").await;
    assert_eq!(
        house
            .rest("GET", &format!("/channels/{channel}/messages"), Value::Null)
            .await,
        (200, json!([]))
    );
    let (_, answer) = house
        .post(
            "text",
            json!({"content": "x", "message_reference": {"message_id": said["id"]}}),
        )
        .await;
    assert_eq!(answer["code"], 160002);
}

#[tokio::test]
async fn the_same_nonce_gives_the_same_message_for_three_minutes() {
    let house = House::open().await;
    let body = json!({"content": "once", "nonce": "answer-1", "enforce_nonce": true});
    let (_, first) = house.post("data", body.clone()).await;
    let (_, second) = house.post("data", body.clone()).await;
    assert_eq!(first["id"], second["id"]);
    house.standin.advance(Duration::from_secs(181));
    let (_, third) = house.post("data", body).await;
    assert_ne!(first["id"], third["id"]);
}

#[tokio::test]
async fn replies_ping_as_allowed_mentions_say_and_edits_never() {
    let house = House::open().await;
    let question = house.say("ada", "data", "q").await;
    let reply = |allowed: Value| json!({"content": "a @everyone", "message_reference": {"message_id": question}, "allowed_mentions": allowed});
    let (_, quiet) = house.post("data", reply(json!({"parse": []}))).await;
    assert_eq!(
        (&quiet["mentions"], &quiet["mention_everyone"]),
        (&json!([]), &json!(false))
    );
    let (_, loud) = house
        .post("data", reply(json!({"parse": [], "replied_user": true})))
        .await;
    assert_eq!(loud["mentions"][0]["username"], "ada");
    let channel = house.channel("data").await;
    let path = format!(
        "/channels/{channel}/messages/{}",
        quiet["id"].as_str().unwrap()
    );
    assert_eq!(
        house
            .rest("PATCH", &path, json!({"content": "other"}))
            .await
            .0,
        200
    );
    let world = house.own("/standin/world").await;
    let messages = world["guilds"][0]["channels"][1]["messages"].clone();
    assert_eq!(
        (&messages[1]["pings"], &messages[1]["edits"]),
        (&json!([]), &json!(1))
    );
    assert_eq!(
        (&messages[2]["pings"], &messages[2]["reply_to"]),
        (&json!(["ada"]), &json!(question))
    );
}

#[tokio::test]
async fn files_go_up_come_down_and_are_kept_or_dropped_by_an_edit() {
    let house = House::of(odd_world(&[
        "VIEW_CHANNEL",
        "SEND_MESSAGES",
        "ATTACH_FILES",
        "READ_MESSAGE_HISTORY",
    ]))
    .await;
    let channel = house.channel("text").await;
    let url = format!(
        "{}/api/v10/channels/{channel}/messages",
        house.standin.url()
    );
    let form = |size: usize| {
        let part = |text: String, name: &'static str| {
            reqwest::multipart::Part::bytes(text.into_bytes()).file_name(name)
        };
        reqwest::multipart::Form::new()
            .text("payload_json", json!({"content": "", "attachments": [{"id": 0, "filename": "a b.csv", "description": "d"}, {"id": 1}]}).to_string())
            .part("files[0]", part("a,b".to_owned(), "a b.csv"))
            .part("files[1]", part("x".repeat(size), "big.bin"))
    };
    let send = |size| {
        let request = house
            .http
            .post(&url)
            .header("authorization", format!("Bot {}", house.token))
            .multipart(form(size));
        async { request.send().await.unwrap() }
    };
    assert_eq!(
        send(101).await.json::<Value>().await.unwrap()["code"],
        40005
    );
    let message = send(100).await.json::<Value>().await.unwrap();
    let files = &message["attachments"];
    assert_eq!(
        (
            &files[0]["filename"],
            &files[0]["description"],
            &files[1]["size"]
        ),
        (&json!("a_b.csv"), &json!("d"), &json!(100))
    );
    let down = house
        .http
        .get(files[0]["url"].as_str().unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(down.text().await.unwrap(), "a,b");

    let path = format!(
        "/channels/{channel}/messages/{}",
        message["id"].as_str().unwrap()
    );
    let (_, edited) = house
        .rest(
            "PATCH",
            &path,
            json!({"content": "x", "attachments": [{"id": files[1]["id"]}]}),
        )
        .await;
    assert_eq!(
        (
            edited["attachments"].as_array().unwrap().len(),
            &edited["attachments"][0]["filename"]
        ),
        (1, &json!("big.bin"))
    );

    let lines = house
        .http
        .get(format!("{}/standin/requests", house.standin.url()))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let line: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (
            &line["files"][0]["name"],
            &line["files"][0]["size"],
            &line["status"]
        ),
        (&json!("a b.csv"), &json!(3), &json!(200))
    );
    assert_eq!(line["files"][0]["sha256"].as_str().unwrap().len(), 64);
}

#[tokio::test]
async fn the_sixth_message_is_limited_and_the_headers_tell_it_before() {
    let house = House::open().await;
    let channel = house.channel("data").await;
    let path = format!("/channels/{channel}/messages");
    let mut last = None;
    for left in (0..5).rev() {
        let response = house
            .rest_raw("POST", &path, json!({"content": "x"}))
            .await
            .unwrap();
        assert_eq!(
            response.headers()["x-ratelimit-remaining"],
            left.to_string()
        );
        last = Some(response);
    }
    let bucket = last.unwrap().headers()["x-ratelimit-bucket"].clone();
    let response = house
        .rest_raw("POST", &path, json!({"content": "x"}))
        .await
        .unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            &response.headers()["x-ratelimit-bucket"]
        ),
        (429, &bucket)
    );
    assert_eq!(response.headers()["x-ratelimit-scope"], "user");
    let body: Value = response.json().await.unwrap();
    assert!(
        body["retry_after"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0 && seconds <= 5.0)
    );
    assert_eq!(
        (body["global"].as_bool(), house.standin.rate_limited()),
        (Some(false), 1)
    );
}

#[tokio::test]
async fn the_third_rename_and_the_fourth_edit_of_an_old_message_are_limited() {
    let house = House::open().await;
    let question = house.say("ada", "data", "q").await;
    let channel = house.channel("data").await;
    let (status, thread) = house
        .rest(
            "POST",
            &format!("/channels/{channel}/messages/{question}/threads"),
            json!({"name": "t"}),
        )
        .await;
    assert_eq!((status, &thread["id"]), (201, &json!(question)));
    let again = house
        .rest(
            "POST",
            &format!("/channels/{channel}/messages/{question}/threads"),
            json!({"name": "t"}),
        )
        .await;
    assert_eq!(again.1["code"], 160004);
    for (name, status) in [("a", 200), ("b", 200), ("c", 429)] {
        let given = house
            .rest(
                "PATCH",
                &format!("/channels/{question}"),
                json!({"name": name}),
            )
            .await;
        assert_eq!(given.0, status, "{given:?}");
    }
    let (_, message) = house
        .rest(
            "POST",
            &format!("/channels/{question}/messages"),
            json!({"content": "live"}),
        )
        .await;
    house.standin.advance(Duration::from_secs(3601));
    let path = format!(
        "/channels/{question}/messages/{}",
        message["id"].as_str().unwrap()
    );
    for (text, status, code) in [
        ("1", 200, Value::Null),
        ("2", 200, Value::Null),
        ("3", 200, Value::Null),
        ("4", 429, json!(30046)),
    ] {
        let (given, answer) = house.rest("PATCH", &path, json!({"content": text})).await;
        assert_eq!((given, answer["code"].clone()), (status, code));
    }
}

#[tokio::test]
async fn archived_and_locked_threads_follow_the_rules() {
    let house = House::open().await;
    let question = house.say("ada", "data", "q").await;
    let channel = house.channel("data").await;
    house
        .rest(
            "POST",
            &format!("/channels/{channel}/messages/{question}/threads"),
            json!({"name": "t"}),
        )
        .await;
    let messages = format!("/channels/{question}/messages");
    let (_, first) = house.rest("POST", &messages, json!({"content": "1"})).await;
    let edit = format!("{messages}/{}", first["id"].as_str().unwrap());

    house
        .act(json!({"as": "olga", "do": "archive", "in": "t"}))
        .await;
    assert_eq!(
        house.rest("PATCH", &edit, json!({"content": "2"})).await.1["code"],
        50083
    );
    assert_eq!(
        house
            .rest("POST", &messages, json!({"content": "back"}))
            .await
            .0,
        200
    );
    assert_eq!(
        house.rest("PATCH", &edit, json!({"content": "2"})).await.0,
        200
    );

    house
        .act(json!({"as": "olga", "do": "lock", "in": "t"}))
        .await;
    assert_eq!(
        house
            .rest("POST", &messages, json!({"content": "3"}))
            .await
            .1["code"],
        160005
    );
    let (status, refused) = house
        .try_act(json!({"as": "ada", "do": "say", "in": "t", "text": "x"}))
        .await;
    assert_eq!(
        (status, refused["reason"].as_str()),
        (403, Some("this thread is locked"))
    );
}

#[tokio::test]
async fn history_is_paged_both_ways() {
    let house = House::open().await;
    let mut ids = vec![];
    for n in 0..5 {
        ids.push(house.say("ada", "data", &n.to_string()).await);
    }
    let channel = house.channel("data").await;
    for (query, expected) in [
        ("limit=2", vec![4, 3]),
        (&*format!("after={}&limit=2", ids[1]), vec![3, 2]),
        (&*format!("before={}&limit=2", ids[2]), vec![1, 0]),
        (&*format!("around={}&limit=3", ids[2]), vec![3, 2, 1]),
    ] {
        let (_, found) = house
            .rest(
                "GET",
                &format!("/channels/{channel}/messages?{query}"),
                Value::Null,
            )
            .await;
        let found: Vec<&str> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["id"].as_str().unwrap())
            .collect();
        assert_eq!(
            found,
            expected
                .into_iter()
                .map(|n: usize| ids[n].as_str())
                .collect::<Vec<_>>(),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_deferred_answer_is_filled_in_and_its_token_dies_after_fifteen_minutes() {
    let house = House::open().await;
    house.register().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    let asked =
        house.act(json!({"as": "olga", "do": "command", "in": "data", "name": "guest show"}));
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        let serenity::all::Event::InteractionCreate(ref create) = event else {
            unreachable!()
        };
        let (id, token) = (
            create.interaction.id(),
            create.interaction.token().to_owned(),
        );
        let hook = format!("/webhooks/{}/{token}", house.bot);
        assert_eq!(
            house
                .rest("POST", &hook, json!({"content": "early"}))
                .await
                .1["code"],
            10015
        );
        assert_eq!(
            answers_with(&house, event, 5, json!({"flags": 64})).await.0,
            204
        );
        let again = house
            .rest(
                "POST",
                &format!("/interactions/{id}/{token}/callback"),
                json!({"type": 6}),
            )
            .await;
        assert_eq!(again.1["code"], 40060);
        let filled = house
            .rest(
                "PATCH",
                &format!("{hook}/messages/@original"),
                json!({"content": "done"}),
            )
            .await;
        assert_eq!((filled.0, &filled.1["flags"]), (200, &json!(64)));
        hook
    };
    let (answer, hook) = tokio::join!(asked, answered);
    assert_eq!(
        (&answer["reply"]["content"], &answer["reply"]["ephemeral"]),
        (&json!("done"), &json!(true))
    );
    assert_eq!(
        house
            .rest("POST", &hook, json!({"content": "more"}))
            .await
            .0,
        200
    );
    house.standin.advance(Duration::from_secs(901));
    let late = house.rest("POST", &hook, json!({"content": "late"})).await;
    assert_eq!((late.0, &late.1["code"]), (401, &json!(50027)));
}

#[tokio::test]
async fn an_answer_after_three_seconds_is_too_late() {
    let house = House::open().await;
    house.register().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    let asked =
        house.try_act(json!({"as": "olga", "do": "command", "in": "data", "name": "guest show"}));
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        house.standin.advance(Duration::from_secs(4));
        answers_with(&house, event, 4, json!({"content": "x"}))
            .await
            .1["code"]
            .clone()
    };
    let ((status, answer), code) = tokio::join!(asked, answered);
    assert_eq!(
        (status, answer["reason"].as_str()),
        (408, Some("the application did not respond"))
    );
    assert_eq!(code, 10062);
}
