//! serenity connects, people act, and every event decodes.

use serde_json::{Value, json};
use serenity::all as discord;

use crate::house::{House, INTENTS, answers_with};

#[tokio::test]
async fn serenity_reads_every_kind_of_event() {
    let house = House::open().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("READY").await;
    ear.hears("GUILD_CREATE").await;

    let hello = house.say("ada", "general", "@innkeeper hello").await;
    let discord::Event::MessageCreate(event) = ear.hears("MESSAGE_CREATE").await else {
        unreachable!()
    };
    assert_eq!(event.message.content, format!("<@{}> hello", house.bot));
    assert_eq!(event.message.mentions[0].id.get(), house.bot);
    assert_eq!(event.message.guild_id.unwrap().get(), house.guild);

    house
        .act(json!({"as": "ada", "do": "edit", "message": hello, "text": "other"}))
        .await;
    ear.hears("MESSAGE_UPDATE").await;
    house
        .act(json!({"as": "ben", "do": "react", "message": hello, "emoji": "👀"}))
        .await;
    ear.hears("MESSAGE_REACTION_ADD").await;
    house
        .act(json!({"as": "ben", "do": "unreact", "message": hello, "emoji": "👀"}))
        .await;
    ear.hears("MESSAGE_REACTION_REMOVE").await;

    for action in [
        json!({"do": "say", "in": "general", "text": "re", "reply_to": hello}),
        json!({"do": "say", "in": "general", "text": "x", "files": [{"name": "a.csv", "base64": "YSxi"}]}),
        json!({"do": "sticker", "in": "general"}),
        json!({"do": "voice", "in": "general"}),
        json!({"do": "forward", "in": "general", "message": hello}),
        json!({"do": "poll", "in": "general", "question": "tea?"}),
        json!({"do": "say", "in": "@innkeeper", "text": "psst"}),
    ] {
        let mut action = action;
        action["as"] = json!("ben");
        house.act(action).await;
        ear.hears("MESSAGE_CREATE").await;
    }

    let thread = house
        .act(json!({"as": "ada", "do": "thread", "message": hello, "name": "talk"}))
        .await;
    assert_eq!(thread["id"], json!(hello));
    ear.hears("THREAD_CREATE").await;
    ear.hears("MESSAGE_UPDATE").await;
    house.say("ben", "talk", "@innkeeper in here").await;
    ear.hears("THREAD_MEMBERS_UPDATE").await;
    house
        .act(json!({"as": "ada", "do": "archive", "in": "talk"}))
        .await;
    ear.hears("THREAD_UPDATE").await;
    house
        .act(json!({"as": "olga", "do": "delete-thread", "in": "talk"}))
        .await;
    ear.hears("THREAD_DELETE").await;

    house
        .act(json!({"as": "innkeeper", "do": "nick", "nick": "Host"}))
        .await;
    ear.hears("GUILD_MEMBER_UPDATE").await;
    house
        .act(json!({"as": "ada", "do": "delete", "message": hello}))
        .await;
    ear.hears("MESSAGE_DELETE").await;
    let (one, two) = (
        house.say("ada", "data", "1").await,
        house.say("ada", "data", "2").await,
    );
    house
        .act(json!({"as": "olga", "do": "delete", "messages": [one, two]}))
        .await;
    ear.hears("MESSAGE_DELETE_BULK").await;
    house
        .act(json!({"as": "olga", "do": "rename", "in": "data", "name": "figures"}))
        .await;
    ear.hears("CHANNEL_UPDATE").await;
    house
        .act(json!({"as": "olga", "do": "delete-channel", "in": "figures"}))
        .await;
    ear.hears("CHANNEL_DELETE").await;
}

#[tokio::test]
async fn a_command_reaches_the_bot_with_its_options_and_its_answer_comes_back() {
    let house = House::open().await;
    house.register().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    let command = json!({"as": "ada", "do": "command", "in": "data", "name": "grant",
        "options": {"member": "ben", "project": "site"}});
    let asked = house.act(command);
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        let discord::Event::InteractionCreate(ref create) = event else {
            unreachable!()
        };
        let command = create.interaction.as_command().unwrap();
        assert!(matches!(
            command.data.options[0].value,
            discord::CommandDataOptionValue::User(_)
        ));
        assert_eq!(
            command.data.resolved.users.values().next().unwrap().name,
            "ben"
        );
        let (status, _) =
            answers_with(&house, event, 4, json!({"content": "granted", "flags": 64})).await;
        assert_eq!(status, 204);
    };
    let (answer, ()) = tokio::join!(asked, answered);
    assert_eq!(
        (&answer["reply"]["content"], &answer["reply"]["ephemeral"]),
        (&json!("granted"), &json!(true))
    );
    assert!(answer["modal"].is_null());
}

#[tokio::test]
async fn suggestions_a_form_and_a_button_go_their_whole_way() {
    let house = House::open().await;
    house.register().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;

    let asked = house.act(
        json!({"as": "ada", "do": "complete", "in": "data", "name": "grant",
        "options": {"project": "si"}, "focused": "project"}),
    );
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        answers_with(
            &house,
            event,
            8,
            json!({"choices": [{"name": "Site", "value": "site"}]}),
        )
        .await
    };
    let (answer, (status, _)) = tokio::join!(asked, answered);
    assert_eq!(
        (status, &answer["choices"][0]["value"]),
        (204, &json!("site"))
    );

    let channel = house.channel("data").await;
    let button = json!({"type": 2, "style": 4, "label": "Stop", "custom_id": "stop:1"});
    let body = json!({"content": "working", "components": [{"type": 1, "components": [button]}]});
    let (_, message) = house
        .rest("POST", &format!("/channels/{channel}/messages"), body)
        .await;
    let asked =
        house.act(json!({"as": "ben", "do": "press", "message": message["id"], "button": "Stop"}));
    let form = json!({"custom_id": "why", "title": "Why?", "components": [{"type": 1, "components": [
        {"type": 4, "custom_id": "reason", "label": "Reason", "style": 1, "required": true}]}]});
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        answers_with(&house, event, 9, form).await
    };
    let (pressed, _) = tokio::join!(asked, answered);
    assert_eq!(pressed["modal"]["title"], "Why?");

    let empty =
        json!({"as": "ben", "do": "submit", "interaction": pressed["interaction"], "fields": {}});
    let (status, refused) = house.try_act(empty).await;
    assert_eq!(
        (status, refused["reason"].as_str().unwrap()),
        (400, "the field \"Reason\" is required")
    );
    let asked = house.act(
        json!({"as": "ben", "do": "submit", "interaction": pressed["interaction"],
        "fields": {"reason": "enough"}}),
    );
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        answers_with(
            &house,
            event,
            7,
            json!({"content": "stopped", "components": []}),
        )
        .await
    };
    let (_, (status, _)) = tokio::join!(asked, answered);
    assert_eq!(status, 204);
    let (_, message) = house
        .rest(
            "GET",
            &format!(
                "/channels/{channel}/messages/{}",
                message["id"].as_str().unwrap()
            ),
            Value::Null,
        )
        .await;
    assert_eq!(
        (&message["content"], &message["components"]),
        (&json!("stopped"), &json!([]))
    );
}
