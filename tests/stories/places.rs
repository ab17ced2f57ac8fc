//! Places of all kinds, events that come twice, and words that do not come at all.

use std::fs;

use innkeeper::domain::grant::Level;
use serde_json::json;

use crate::house::House;

const BOT: &str = "1213398211451555840";

#[tokio::test]
async fn of_a_project_that_is_worked_on_in_place_only_new_files_come_back() {
    let house = House::open().await;
    fs::write(house.workshop().join("old.txt"), "old").unwrap();
    house.grant("ada", "shop", Level::Chat).await;
    let told = house
        .command(
            "ada",
            "data",
            "ask",
            json!({"project": "shop", "prompt": "!bash echo more >> old.txt; echo new > new.txt"}),
        )
        .await;
    let thread = told.split(['#', '>']).nth(1).unwrap().to_owned();
    let answers = house.answers(&thread, 1).await;
    let files: Vec<_> = answers.iter().flat_map(|answer| answer.files()).collect();
    assert_eq!(files, ["new.txt"], "{}", house.transcript());
    assert_eq!(
        fs::read_to_string(house.workshop().join("old.txt")).unwrap(),
        "oldmore\n"
    );
    house.closes_quietly().await;
}

#[tokio::test]
async fn where_no_thread_may_be_opened_the_answer_comes_in_place_and_says_why() {
    let house = House::plan()
        .world(|world| {
            world["guilds"][0]["channels"][0]["overwrites"] =
                json!([{"role": "innkeeper", "deny": ["CREATE_PUBLIC_THREADS"]}]);
        })
        .open()
        .await;
    let asked = house.says("ada", "general", "@innkeeper hello").await;
    let place = house
        .find("an answer in the channel", |world| {
            let place = world.place("general")?;
            (!place.receipts().is_empty()).then_some(place)
        })
        .await;
    let said = place.answers();
    let texts: Vec<_> = said.iter().map(|message| message.text()).collect();
    assert_eq!(texts.len(), 2, "{}", house.transcript());
    assert!(texts[0].contains("Create Public Threads"), "{texts:?}");
    assert!(texts[1].contains("Hello ada"), "{texts:?}");
    assert_eq!(said[1].reply_to(), Some(asked));
    assert_eq!(said[1].pings(), ["ada"]);
    house.closes_quietly().await;
}

#[tokio::test]
async fn where_the_bot_may_not_speak_nothing_runs_and_a_command_is_told_why() {
    let house = House::plan()
        .world(|world| {
            world["guilds"][0]["channels"][0]["overwrites"] =
                json!([{"role": "innkeeper", "deny": ["SEND_MESSAGES"]}]);
        })
        .open()
        .await;
    let told = house
        .command(
            "ada",
            "general",
            "ask",
            json!({"project": "site", "prompt": "hello"}),
        )
        .await;
    assert!(told.contains("Send Messages"), "{told}");
    assert!(house.ledger().is_empty());
    assert_eq!(house.world().threads(), 0);
    house.closes_quietly().await;
}

#[tokio::test]
async fn an_event_that_comes_twice_is_one_request() {
    let house = House::open().await;
    house
        .fault(json!({"gateway": "duplicate", "event": "MESSAGE_CREATE", "times": 1}))
        .await;
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    // In the order of arrival: what follows is dealt with after both.
    house.says("ada", &thread, "again").await;
    house.answers(&thread, 2).await;
    assert_eq!((house.performed(), house.ledger().len()), (2, 2));
    house.closes_quietly().await;
}

#[tokio::test]
async fn an_answer_whose_acceptance_is_lost_or_refused_for_a_while_comes_once() {
    let house = House::open().await;
    let thread = house
        .says("ada", "data", "@innkeeper hello\n!wait-for .go\n!say once")
        .await;
    house.live(&thread).await;
    house
        .fault(json!([
            {"on": "POST /channels/*/messages", "lose_reply": true, "times": 1},
            {"on": "POST /channels/*/messages", "status": 503, "times": 2},
        ]))
        .await;
    house.lets_go(&thread).await;
    let answers = house.answers(&thread, 1).await;
    assert_eq!(answers.len(), 1, "{}", house.transcript());
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_mention_whose_words_are_withheld_is_told_what_to_switch_on() {
    let house = House::open().await;
    let message = house
        .says("cleo", "general", "nothing to do with anybody")
        .await;
    let general = house.thread("general").await.0["id"].clone();
    let id = message.parse::<u64>().unwrap() + 1;
    let event = json!({
        "id": id.to_string(), "channel_id": general, "guild_id": "1213402987654217728", "type": 0,
        "content": "", "timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": null, "tts": false,
        "mention_everyone": false, "mentions": [{"id": BOT, "username": "innkeeper", "discriminator": "0",
            "avatar": null, "bot": true}],
        "mention_roles": [], "attachments": [], "embeds": [], "pinned": false, "flags": 0, "components": [],
        "author": {"id": "410537337646743552", "username": "ada", "discriminator": "0", "avatar": null},
        "member": {"roles": [], "joined_at": "2024-01-01T00:00:00+00:00", "deaf": false, "mute": false, "flags": 0},
    });
    house
        .act(json!({"as": "ada", "do": "raw", "event": "MESSAGE_CREATE", "data": event}))
        .await;
    let told = house
        .find("a word about the intent", |world| {
            world.place("general")?.bots().into_iter().next()
        })
        .await;
    assert!(told.text().contains("Message Content Intent"), "{told:?}");
    assert!(house.ledger().is_empty());
    house.closes_quietly().await;
}

#[tokio::test]
async fn the_authors_next_words_join_the_running_turn_while_nobody_else_waits() {
    let house = House::open().await;
    let thread = house
        .says("ada", "data", "@innkeeper hello\n!wait-for .go\n!say one")
        .await;
    house.live_shows(&thread, "Working").await;
    let next = house.says("ada", &thread, "!say two").await;
    house
        .wait("the words in what the agent is told", || {
            house.told(&thread, &thread).contains("!say two")
        })
        .await;
    house.lets_go(&thread).await;
    let answers = house.answers(&thread, 1).await;
    assert!(answers[0].text().ends_with("two"), "{}", house.transcript());
    house
        .until("the mark of a request that joined", |world| {
            world.message(&next).unwrap().reactions() == ["⤵️"]
        })
        .await;
    house.is_idle().await;
    assert_eq!((house.performed(), house.ledger().len()), (1, 1));
    house.closes_quietly().await;
}
