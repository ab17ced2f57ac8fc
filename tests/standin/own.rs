//! The stand-in's own routes: who may use them, what people may do, what is told about it.

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::house::{House, INTENTS, PATIENCE, answers_with};

#[tokio::test]
async fn other_origins_hosts_and_content_types_are_turned_away() {
    let house = House::open().await;
    let url = format!("{}/standin/act", house.standin.url());
    let body = json!({"as": "ada", "do": "say", "in": "data", "text": "x"}).to_string();
    let post = || house.http.post(&url).body(body.clone());
    let json_type = ("content-type", "application/json");
    for (request, status) in [
        (post().header("content-type", "text/plain"), 415),
        (post(), 415),
        (
            post()
                .header(json_type.0, json_type.1)
                .header("origin", "http://evil.example"),
            403,
        ),
        (
            post()
                .header(json_type.0, json_type.1)
                .header("host", "evil.example"),
            403,
        ),
        (post().header(json_type.0, json_type.1), 200),
        (house.http.get(&url), 405),
        (house.http.get(house.standin.url()), 200),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{:?}", response.text().await);
    }
}

#[tokio::test]
async fn a_person_who_may_not_is_told_what_the_client_would_tell() {
    let house = House::open().await;
    house.register().await;
    let said = house.say("ada", "data", "mine").await;
    for (action, status, reason) in [
        (
            json!({"do": "edit", "message": said, "text": "x"}),
            403,
            "only one's own messages can be edited",
        ),
        (
            json!({"do": "delete", "message": said}),
            403,
            "you do not have permission to delete this message",
        ),
        (
            json!({"do": "say", "in": "data", "text": " "}),
            400,
            "an empty message cannot be sent",
        ),
        (
            json!({"do": "say", "in": "nowhere", "text": "x"}),
            404,
            "there is no channel or thread \"nowhere\"",
        ),
        (
            json!({"do": "command", "in": "data", "name": "guest show"}),
            403,
            "you are not shown the command /guest",
        ),
        (
            json!({"do": "command", "in": "data", "name": "gone"}),
            404,
            "there is no command /gone",
        ),
        (
            json!({"do": "command", "in": "data", "name": "grant", "options": {"member": "ada"}}),
            400,
            "the option \"project\" is required",
        ),
        (
            json!({"do": "command", "in": "data", "name": "grant", "options": {"member": "zoe", "project": "site"}}),
            400,
            "the option \"member\" must be a member's name, it is \"zoe\"",
        ),
        (
            json!({"do": "press", "message": said, "button": "Stop"}),
            404,
            "the message has no button \"Stop\"",
        ),
        (
            json!({"do": "delete-channel", "in": "data"}),
            403,
            "you do not have permission to delete this",
        ),
        (json!({"do": "dance"}), 400, "nobody can \"dance\" here"),
    ] {
        let mut action = action;
        action["as"] = json!("ben");
        let (given, answer) = house.try_act(action.clone()).await;
        assert_eq!(
            (given, answer["reason"].as_str().unwrap()),
            (status, reason),
            "{action}"
        );
    }
}

#[tokio::test]
async fn disabled_buttons_and_links_cannot_be_pressed() {
    let house = House::open().await;
    let channel = house.channel("data").await;
    let buttons = json!([{"type": 1, "components": [
        {"type": 2, "style": 2, "label": "Old", "custom_id": "old", "disabled": true},
        {"type": 2, "style": 5, "label": "Docs", "url": "https://example.org"},
    ]}]);
    let (_, message) = house
        .rest(
            "POST",
            &format!("/channels/{channel}/messages"),
            json!({"content": "x", "components": buttons}),
        )
        .await;
    for (button, reason) in [
        ("Old", "this is disabled and cannot be used"),
        ("Docs", "this button opens a link"),
    ] {
        let (status, answer) = house
            .try_act(
                json!({"as": "ada", "do": "press", "message": message["id"], "button": button}),
            )
            .await;
        assert_eq!((status, answer["reason"].as_str().unwrap()), (400, reason));
    }
}

#[tokio::test]
async fn whoever_leaves_is_gone_and_comes_back_without_roles() {
    let house = House::open().await;
    house
        .act(json!({"as": "ben", "do": "roles", "roles": ["innkeeper"]}))
        .await;
    house.act(json!({"as": "ben", "do": "leave"})).await;
    let (status, _) = house
        .try_act(json!({"as": "ben", "do": "say", "in": "data", "text": "x"}))
        .await;
    assert_eq!(status, 403);
    house.act(json!({"as": "ben", "do": "join"})).await;
    house.say("ben", "data", "back").await;
    let world = house.own("/standin/world").await;
    let members = world["guilds"][0]["members"].as_array().unwrap().clone();
    assert_eq!(
        members
            .iter()
            .find(|member| member["name"] == "ben")
            .unwrap()["roles"],
        json!([])
    );
}

#[tokio::test]
async fn news_and_requests_come_as_server_sent_events() {
    let house = House::open().await;
    let url = format!("{}/standin/events", house.standin.url());
    let mut stream = house.http.get(url).send().await.unwrap().bytes_stream();
    house.say("ada", "data", "listen").await;
    house.rest("GET", "/users/@me", Value::Null).await;
    let mut heard = String::new();
    let waiting = async {
        while !(heard.contains("event: news") && heard.contains("event: request")) {
            heard.push_str(&String::from_utf8_lossy(
                &stream.next().await.unwrap().unwrap(),
            ));
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .expect("both kinds of events");
    assert!(
        heard.contains("\"name\":\"MESSAGE_CREATE\"") && heard.contains("/users/@me"),
        "{heard}"
    );
}

#[tokio::test]
async fn a_choice_from_a_menu_reaches_the_bot() {
    let house = House::open().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    let channel = house.channel("data").await;
    let options = json!([{"label": "Yes", "value": "y"}, {"label": "No", "value": "n"}]);
    let menu =
        json!([{"type": 1, "components": [{"type": 3, "custom_id": "q", "options": options}]}]);
    let body = json!({"content": "?", "components": menu});
    let (_, message) = house
        .rest("POST", &format!("/channels/{channel}/messages"), body)
        .await;
    let choose = |values: Value| json!({"as": "ada", "do": "choose", "message": message["id"], "values": values});
    let (status, _) = house.try_act(choose(json!(["y", "n"]))).await;
    assert_eq!(status, 400);
    let chosen = house.act(choose(json!(["Yes"])));
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        let serenity::all::Event::InteractionCreate(ref create) = event else {
            unreachable!()
        };
        let component = create.interaction.as_message_component().unwrap().clone();
        assert!(matches!(component.data.kind,
            serenity::all::ComponentInteractionDataKind::StringSelect { ref values } if values == &["y"]));
        answers_with(&house, event, 6, Value::Null).await;
        let hook = format!("/webhooks/{}/{}", house.bot, component.token);
        house
            .rest("POST", &hook, json!({"content": "noted", "flags": 64}))
            .await
    };
    let (answer, (status, _)) = tokio::join!(chosen, answered);
    assert_eq!(
        (
            status,
            &answer["reply"]["content"],
            &answer["reply"]["ephemeral"]
        ),
        (200, &json!("noted"), &json!(true))
    );
    let (status, _) = house
        .try_act(json!({"as": "ben", "do": "delete", "message": answer["reply"]["id"]}))
        .await;
    assert_eq!(status, 404, "nobody else sees it");
}

#[tokio::test]
async fn private_threads_and_servers_are_told_to_a_bot_that_comes_in() {
    let house = House::open().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    house
        .act(json!({"as": "ada", "do": "thread", "in": "data", "name": "quiet", "private": true}))
        .await;
    house.say("ada", "quiet", "alone").await;
    let (status, _) = house
        .try_act(json!({"as": "ben", "do": "say", "in": "quiet", "text": "x"}))
        .await;
    assert_eq!(status, 403);
    house.say("ada", "quiet", "@innkeeper come").await;
    ear.hears("THREAD_CREATE").await;
    assert_eq!(ear.hears_text().await, format!("<@{}> come", house.bot));
    let thread = house.standin.world()["guilds"][0]["channels"][1]["threads"][0].clone();
    assert_eq!(thread["messages"][1]["pings"], json!(["innkeeper"]));
    house.act(json!({"as": "innkeeper", "do": "leave"})).await;
    ear.hears("GUILD_DELETE").await;
    house.act(json!({"as": "innkeeper", "do": "join"})).await;
    ear.hears("GUILD_CREATE").await;
}

#[tokio::test]
async fn the_same_can_be_done_within_the_process() {
    let house = House::open().await;
    let mut changes = house.standin.changes();
    changes.mark_unchanged();
    let waiting = tokio::time::timeout(PATIENCE, changes.changed());
    let say = json!({"as": "ada", "do": "say", "in": "data", "text": "here"});
    let (changed, said) = tokio::join!(waiting, house.standin.act(&say));
    assert!(matches!(changed, Ok(Ok(()))));
    let message = house.standin.world()["guilds"][0]["channels"][1]["messages"][0].clone();
    assert_eq!(
        (&message["id"], &message["content"]),
        (&said.unwrap()["id"], &json!("here"))
    );
    let refused = house.standin.act(&json!({"as": "zoe", "do": "say"})).await;
    assert_eq!(refused, Err("there is nobody named \"zoe\"".to_owned()));
    house
        .standin
        .misbehave(&json!({"on": "GET /users/@me", "status": 500}))
        .unwrap();
    assert_eq!(house.rest("GET", "/users/@me", Value::Null).await.0, 500);
    assert!(
        house
            .standin
            .requests()
            .lines()
            .next()
            .is_some_and(|line| line.contains("/users/@me"))
    );
}

#[tokio::test]
async fn a_stopped_stand_in_answers_no_more() {
    let house = House::open().await;
    let url = format!("{}/standin/world", house.standin.url());
    house.standin.stop().await;
    assert!(reqwest::get(url).await.is_err());
}
