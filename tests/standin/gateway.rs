//! Logins are checked, what an application may not see is censored, and sessions resume.

use innkeeper::standin::World;
use serde_json::{Value, json};
use serenity::all as discord;

use crate::house::{House, INTENTS};

/// The demo's people with a bot that lacks the Message Content intent.
fn deaf_world() -> World {
    let world = json!({
        "bot": { "name": "innkeeper", "message_content": false },
        "guilds": [{ "name": "Deaf", "owner": "ada", "members": [{ "name": "ada" }], "channels": [{ "name": "data" }] }],
    });
    World::from_json(&world.to_string()).unwrap()
}

impl House {
    /// Lists the faults that hold and the counts beside them.
    async fn gateway_count(&self, key: &str) -> u64 {
        self.own("/standin/faults").await[key].as_u64().unwrap()
    }
}

#[tokio::test]
async fn a_wrong_token_and_intents_end_the_client() {
    let mut house = House::of(deaf_world()).await;
    let mut client = house.serenity(INTENTS).await;
    let ended = (&mut client.task).await.unwrap();
    assert!(
        matches!(
            ended,
            Err(serenity::Error::Gateway(
                discord::GatewayError::DisallowedGatewayIntents
            ))
        ),
        "{ended:?}"
    );
    let unknown = discord::GatewayIntents::from_bits_retain(1 << 18 | 1);
    let mut client = house.serenity(unknown).await;
    let ended = (&mut client.task).await.unwrap();
    assert!(
        matches!(
            ended,
            Err(serenity::Error::Gateway(
                discord::GatewayError::InvalidGatewayIntents
            ))
        ),
        "{ended:?}"
    );
    house.token = World::demo().bot_token().to_owned();
    let mut client = house.serenity(discord::GatewayIntents::GUILDS).await;
    let ended = (&mut client.task).await.unwrap();
    assert!(
        matches!(
            ended,
            Err(serenity::Error::Gateway(
                discord::GatewayError::InvalidAuthentication
            ))
        ),
        "{ended:?}"
    );
}

#[tokio::test]
async fn without_the_content_intent_only_mentions_are_readable() {
    let house = House::of(deaf_world()).await;
    let mut ear = house
        .serenity(INTENTS.difference(discord::GatewayIntents::MESSAGE_CONTENT))
        .await;
    ear.hears("GUILD_CREATE").await;
    for (text, readable) in [("secret", false), ("@innkeeper hello", true)] {
        let said = house.say("ada", "data", text).await;
        let discord::Event::MessageCreate(event) = ear.hears("MESSAGE_CREATE").await else {
            unreachable!()
        };
        assert_eq!(!event.message.content.is_empty(), readable, "{text}");
        let path = format!("/channels/{}/messages/{said}", house.channel("data").await);
        let (_, message) = house.rest("GET", &path, Value::Null).await;
        assert_eq!(message["content"] != "", readable, "{text}");
    }
}

#[tokio::test]
async fn without_an_intent_its_events_do_not_come() {
    let house = House::open().await;
    let mut ear = house.serenity(discord::GatewayIntents::GUILDS).await;
    ear.hears("GUILD_CREATE").await;
    let said = house.say("ada", "data", "x").await;
    house
        .act(json!({"as": "ada", "do": "thread", "message": said, "name": "t"}))
        .await;
    ear.hears("THREAD_CREATE").await;
    assert!(ear.before.is_empty(), "{:?}", ear.before);
}

#[tokio::test]
async fn a_client_that_comes_back_gets_what_it_missed() {
    let house = House::open().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    for rule in [
        json!({"gateway": "drop"}),
        json!({"gateway": "reconnect"}),
        json!({"gateway": "close", "code": 4000}),
    ] {
        house.fault(rule.clone()).await;
        house.say("ada", "data", &rule.to_string()).await;
        let discord::Event::MessageCreate(event) = ear.hears("MESSAGE_CREATE").await else {
            unreachable!()
        };
        assert_eq!(event.message.content, rule.to_string());
        ear.hears_or_heard("RESUMED").await;
    }
    assert_eq!(house.gateway_count("logins").await, 1);
}

#[tokio::test]
async fn a_client_whose_session_is_forgotten_logs_in_anew() {
    let house = House::open().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    house
        .fault(json!([{"gateway": "forget"}, {"gateway": "drop"}]))
        .await;
    ear.hears("READY").await;
    ear.hears("GUILD_CREATE").await;
    house.say("ada", "data", "again").await;
    assert_eq!(ear.hears_text().await, "again");
    assert_eq!(house.gateway_count("logins").await, 2);
}

#[tokio::test]
async fn events_can_be_doubled_shuffled_and_spoiled() {
    let house = House::open().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    house
        .fault(json!({"gateway": "duplicate", "event": "MESSAGE_CREATE"}))
        .await;
    house.say("ada", "data", "twice").await;
    let (one, two) = (ear.hears_text().await, ear.hears_text().await);
    assert_eq!((one.as_str(), two.as_str()), ("twice", "twice"));

    house
        .fault(json!({"gateway": "unparsable", "event": "MESSAGE_CREATE"}))
        .await;
    house.say("ada", "data", "spoiled").await;
    ear.hears_unreadable("MESSAGE_CREATE").await;
    house.say("ada", "data", "fine").await;
    assert_eq!(ear.hears_text().await, "fine");
}
