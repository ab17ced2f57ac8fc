//! Stories of guests, grants, budgets and chats' commands: the whole bot against the stand-in for Discord.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail loudly"
)]

#[path = "../house/mod.rs"]
mod house;

use std::fs;

use innkeeper::domain::grant::Level;
use innkeeper::domain::money::Usd;
use serde_json::{Value, json};

use crate::house::{House, Message};

/// Waits for a message of the bot in a place that holds these words.
async fn said(house: &House, place: &str, words: &str) -> Message {
    house
        .find(&format!("{words:?} in {place}"), |world| {
            let bots = world.place(place)?.bots();
            bots.into_iter()
                .rev()
                .find(|message| message.text().contains(words))
        })
        .await
}

async fn chooses(house: &House, who: &str, message: &Message, value: &str) -> String {
    let action = json!({"as": who, "do": "choose", "message": message.id(), "values": [value]});
    let answer = house.act(action).await;
    answer["reply"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn words(reply: &Value) -> &str {
    reply["content"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_stranger_asks_for_access_gets_it_across_a_restart_and_works() {
    let mut house = House::open().await;
    let first = house
        .says("cleo", "general", "@innkeeper what is in site?")
        .await;
    let refused = house.reply_to("general", &first).await;
    assert_eq!(refused.buttons(), ["Ask for access"]);
    let asked = house.press("cleo", refused.id(), "Ask for access").await;
    assert!(words(&asked).starts_with("✓ The admins have"), "{asked}");
    let question = said(&house, "staffroom", "asks for access").await;
    assert!(question.pings().is_empty());
    house.bot_goes().await;
    house.bot_comes().await;
    chooses(&house, "alma", &question, "site").await;
    let question = said(&house, "staffroom", "What do they get on `site`?").await;
    assert_eq!(
        question.buttons(),
        ["Grant view", "Grant chat", "Grant ship", "No"]
    );
    let done = house.press("alma", question.id(), "Grant chat").await;
    assert!(
        words(&done).contains("now holds **chat** on `site`"),
        "{done}"
    );
    let told = said(&house, "general", "granted you **chat** on `site`").await;
    assert_eq!(told.pings(), ["cleo"]);
    said(&house, "staffroom", "granted").await;

    // Without a budget nothing runs; with one it does.
    let second = house.says("cleo", "data", "@innkeeper hello").await;
    let none = house.reply_to("data", &second).await;
    assert!(none.text().contains("no budget"), "{none:?}");
    let options = json!({"member": "cleo", "dollars": 2.0});
    let set = house
        .command("alma", "staffroom", "budget guest", options)
        .await;
    assert!(set.contains("now has $2.00 a month"), "{set}");
    let third = house
        .says("cleo", "data", "@innkeeper hello\n!cost 1.7")
        .await;
    house.answers(&third, 1).await;
    let warning = said(&house, &third, "80 %").await;
    assert_eq!(warning.pings(), ["cleo"]);

    let usage = house
        .act(json!({"as": "cleo", "do": "command", "in": "data", "name": "usage", "options": {}}))
        .await;
    let file = &usage["reply"]["files"][0];
    assert!(
        file["name"].as_str().unwrap_or_default().ends_with(".png"),
        "{usage}"
    );
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_request_waits_for_its_project_and_only_its_author_chooses() {
    let mut house = House::open().await;
    house.grant("ada", "notes", Level::Chat).await;
    let request = house.says("ada", "general", "@innkeeper hello").await;
    let question = said(&house, "general", "in which project?").await;
    house.bot_goes().await;
    house.bot_comes().await;
    let other = chooses(&house, "ben", &question, "site").await;
    assert!(other.contains("author of the request alone"), "{other}");
    assert_eq!(house.world().threads(), 0);
    chooses(&house, "ada", &question, "notes").await;
    house.answers(&request, 1).await;
    assert_eq!(house.ledger()[0].project.as_str(), "notes");
    said(&house, "general", "✓ in `notes`").await;
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_suspension_stops_the_running_turn_and_a_restored_guest_goes_on() {
    let house = House::open().await;
    let thread = house.says("ada", "data", "@innkeeper hello\n!silent").await;
    house.live(&thread).await;
    house
        .wait("the turn runs", || {
            house
                .store()
                .unfinished()
                .unwrap()
                .iter()
                .any(|turn| turn.started_at.is_some())
        })
        .await;
    let status = house
        .command("alma", "staffroom", "status", json!({}))
        .await;
    assert!(status.contains("1 of 4 running"), "{status}");
    let ada = json!({"member": "ada"});
    house
        .command("alma", "staffroom", "guest suspend", ada.clone())
        .await;
    said(&house, &thread, "access has ended").await;
    house.is_idle().await;
    let request = house.says("ada", &thread, "again").await;
    let refused = house.reply_to(&thread, &request).await;
    assert!(refused.text().contains("suspended"), "{refused:?}");
    house
        .command("alma", "staffroom", "guest restore", ada)
        .await;
    let request = house.says("ada", &thread, "once more").await;
    house.reply_to(&thread, &request).await;
    let audit = house.command("olga", "staffroom", "audit", json!({})).await;
    assert!(audit.contains("`suspended` → `active`"), "{audit}");
    let hidden = house
        .try_act(
            json!({"as": "ada", "do": "command", "in": "data", "name": "audit", "options": {}}),
        )
        .await;
    assert!(hidden.is_err(), "{hidden:?}");
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_role_that_is_lost_before_the_start_opens_nothing() {
    let house = House::plan().limits("running_per_guest = 1").open().await;
    let options = json!({"project": "notes", "level": "chat", "role": "crew"});
    house.command("alma", "staffroom", "grant", options).await;
    house.budget("cleo", Usd(5_000_000)).await;
    house
        .act(json!({"as": "cleo", "do": "roles", "roles": ["crew"]}))
        .await;
    let first = house
        .says("cleo", "data", "@innkeeper hello\n!wait-for go")
        .await;
    house.live(&first).await;
    let second = house.says("cleo", "general", "@innkeeper and this").await;
    // It waits for the one place that a guest has.
    house.thread(&second).await;
    house
        .act(json!({"as": "cleo", "do": "roles", "roles": []}))
        .await;
    house.stops("olga", &first).await;
    let refused = said(&house, &second, "no access").await;
    assert!(refused.text().contains("`notes`"), "{refused:?}");
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_chat_is_renewed_forked_and_turned_to_mentions() {
    let house = House::open().await;
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    let new = house.command("ada", &thread, "new", json!({})).await;
    assert!(new.starts_with("✓ The next request begins"), "{new}");
    house.says("ada", &thread, "who are you?").await;
    house.answers(&thread, 2).await;
    let other = house.command("ben", &thread, "new", json!({})).await;
    assert!(other.contains("Only the owner of this chat"), "{other}");
    let model = house
        .command("ada", &thread, "model", json!({"model": "sonnet"}))
        .await;
    assert!(model.contains("now uses `sonnet`"), "{model}");
    let listens = house
        .command("ada", &thread, "listen", json!({"to": "mentions"}))
        .await;
    assert!(
        listens.contains("Only messages here that mention me"),
        "{listens}"
    );
    house.says("ada", &thread, "just talking").await;
    house
        .says(
            "ada",
            &thread,
            "@innkeeper now you\n!write kept.txt kept\\n\n!wait-for .go",
        )
        .await;
    house.live(&thread).await;
    let busy = house.command("ada", &thread, "fork", json!({})).await;
    assert!(busy.contains("still runs or waits in this chat"), "{busy}");
    house.lets_go(&thread).await;
    house.answers(&thread, 3).await;
    house.is_idle().await;
    assert_eq!(house.ledger().len(), 3);
    let forked = house.command("ada", &thread, "fork", json!({})).await;
    let fork = forked
        .split_once("<#")
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(id, _)| id.to_owned())
        .unwrap_or_else(|| panic!("no thread in {forked:?}"));
    assert!(
        forked.contains("The agent knows what was said here so far."),
        "{forked}"
    );
    house
        .says(
            "ada",
            &fork,
            "hello again\n!read kept.txt\n!bash echo more >>kept.txt",
        )
        .await;
    house.answers(&fork, 1).await;
    let kept = |thread: &str| fs::read_to_string(house.in_chat(thread, "kept.txt")).unwrap();
    assert_eq!(
        (kept(&thread).as_str(), kept(&fork).as_str()),
        ("kept\n", "kept\nmore\n")
    );
    let resumed = |thread: &str| {
        let chats = house.store().chats().unwrap();
        let chat = chats
            .into_iter()
            .find(|chat| chat.thread.to_string() == thread);
        house
            .store()
            .newest_turn(chat.unwrap().thread)
            .unwrap()
            .unwrap()
            .resumes
    };
    assert!(resumed(&fork), "{}", house.transcript());
    let details = house
        .act(json!({"as": "ada", "do": "command", "in": fork, "name": "details", "options": {}}))
        .await;
    assert_eq!(
        details["reply"]["files"][0]["name"], "details.md",
        "{details}"
    );
    house.closes_quietly().await;
}

#[tokio::test]
async fn spending_is_shown_to_admins_with_a_picture_and_a_pause_holds_new_turns_back() {
    let house = House::open().await;
    let thread = house
        .says("ada", "data", "@innkeeper hello\n!cost 0.8")
        .await;
    house.answers(&thread, 1).await;
    let spend = house
        .act(json!({"as": "alma", "do": "command", "in": "staffroom", "name": "spend", "options": {}}))
        .await;
    assert!(words(&spend["reply"]).contains("in 1 turn"), "{spend}");
    let picture = picture_of(&spend).await;
    assert_eq!(&picture[1..4], b"PNG");
    let paused = house
        .command("alma", "staffroom", "pause", json!({"reason": "new disk"}))
        .await;
    assert!(paused.contains("paused: new disk."), "{paused}");
    let request = house.says("ben", &thread, "and now?").await;
    let told = house.reply_to(&thread, &request).await;
    assert!(
        told.text().contains("paused by an admin: new disk"),
        "{told:?}"
    );
    house
        .command("alma", "staffroom", "resume", json!({}))
        .await;
    let request = house.says("ben", &thread, "and now?").await;
    house.reply_to(&thread, &request).await;
    house.answers(&thread, 2).await;
    house.closes_quietly().await;
}

/// Fetches the first file of a reply.
async fn picture_of(answer: &Value) -> Vec<u8> {
    let url = answer["reply"]["files"][0]["url"]
        .as_str()
        .unwrap_or_default();
    assert!(!url.is_empty(), "{answer}");
    reqwest::get(url)
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap()
        .to_vec()
}
