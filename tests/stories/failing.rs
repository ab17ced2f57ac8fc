//! Agents that fail, fall silent or talk nonsense, and places that change under a running turn.

use serde_json::json;

use crate::house::House;

/// Asks for one thing and returns the answer and the receipt.
async fn ask(house: &House, directives: &str) -> (String, String) {
    let thread = house
        .says("ada", "data", &format!("@innkeeper please\n{directives}"))
        .await;
    let answer = house.answer(&thread).await.text().to_owned();
    let receipt = house.thread(&thread).await.receipts()[0].text().to_owned();
    house.is_idle().await;
    (answer.replace("<@410537337646743552>\n", ""), receipt)
}

#[tokio::test]
async fn every_bad_end_of_the_agent_is_told_and_none_leaves_anything_behind() {
    let mut house = House::open().await;
    house.expects_error("admins are needed");
    let table = [
        (
            "!say half\n!no-result",
            "half\n\nThe agent ended early, without saying that it was done. Ask again to go on.",
            "-# ✗ ended early",
        ),
        ("!die", "The agent ended early", "-# ✗ ended early"),
        (
            "!error Failed to authenticate. API Error: 401 denied",
            "The provider does not let me in at the moment. An admin has to mend that.",
            "-# ✗ failed",
        ),
        (
            "!error API Error: 529 Overloaded",
            "The provider is overloaded. Ask again in a few minutes.",
            "-# ✗ failed",
        ),
        ("!linger 600\n!say done", "done", "-# ✓ "),
        ("!garbage\n!say fine", "fine", "-# ✓ "),
        (
            "!raw {\"type\":\"new\",\"x\":[1]}\n!raw {\n!say ok",
            "ok",
            "-# ✓ ",
        ),
    ];
    for (directives, answer, receipt) in table {
        let (said, left) = ask(&house, directives).await;
        assert!(
            said.starts_with(answer),
            "{directives}: {said}\n{}",
            house.transcript()
        );
        assert!(left.starts_with(receipt), "{directives}: {left}");
    }
    house
        .until("a word to the admins", |world| {
            !world.place("staffroom").unwrap().bots().is_empty()
        })
        .await;
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_silent_agent_is_stopped_once_nothing_was_heard_for_too_long() {
    let house = House::plan().limits("silence_seconds = 2\n").open().await;
    let (said, receipt) = ask(&house, "!silent").await;
    assert!(
        said.starts_with("Stopped: nothing was heard of the agent"),
        "{said}"
    );
    assert!(receipt.contains("silent for too long"), "{receipt}");
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_line_of_twenty_megabytes_does_no_harm() {
    let house = House::plan()
        .prelude("head -c 20000000 /dev/zero | tr '\\0' x; echo")
        .open()
        .await;
    let (said, _) = ask(&house, "!say still here").await;
    assert_eq!(said, "still here");
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_deleted_live_message_is_made_anew() {
    let house = House::open().await;
    let thread = house
        .says("ada", "data", "@innkeeper please\n!wait-for .go\n!say done")
        .await;
    let live = house.live(&thread).await;
    house
        .act(json!({"as": "olga", "do": "delete", "message": live.id()}))
        .await;
    let second = house.live(&thread).await;
    assert_ne!(second.id(), live.id());
    house.lets_go(&thread).await;
    let answers = house.answers(&thread, 1).await;
    assert_eq!(answers.len(), 1, "{answers:?}");
    house.closes_quietly().await;
}

#[tokio::test]
async fn an_archived_thread_is_brought_back_for_the_answer() {
    let house = House::open().await;
    let thread = house
        .says("ada", "data", "@innkeeper please\n!wait-for .go\n!say done")
        .await;
    house.live(&thread).await;
    house
        .act(json!({"as": "olga", "do": "archive", "in": thread}))
        .await;
    house.lets_go(&thread).await;
    let answer = house.answer(&thread).await;
    assert_eq!(answer.pings(), ["ada"]);
    house.closes_quietly().await;
}

#[tokio::test]
async fn the_answer_that_a_locked_thread_does_not_take_is_told_of_in_the_channel() {
    let mut house = House::open().await;
    house.expects_error("a part of an answer cannot be delivered");
    let thread = house
        .says("ada", "data", "@innkeeper please\n!wait-for .go\n!say done")
        .await;
    house.live(&thread).await;
    house
        .act(json!({"as": "olga", "do": "lock", "in": thread}))
        .await;
    house
        .act(json!({"as": "olga", "do": "archive", "in": thread}))
        .await;
    house.lets_go(&thread).await;
    let told = house
        .find("a word in the channel", |world| {
            world.place("data")?.bots().into_iter().next()
        })
        .await;
    assert!(told.text().contains("cannot be written in"), "{told:?}");
    assert_eq!(told.pings(), ["ada"]);
    house.is_idle().await;
    assert_eq!(house.ledger().len(), 1);
    house
        .act(json!({"as": "olga", "do": "delete-thread", "in": thread}))
        .await;
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_turn_whose_thread_is_deleted_stops_and_is_paid() {
    let house = House::open().await;
    let thread = house
        .says("ada", "data", "@innkeeper please\n!bash sleep 600")
        .await;
    house.live_shows(&thread, "sleep 600").await;
    house
        .act(json!({"as": "olga", "do": "delete-thread", "in": thread}))
        .await;
    house.is_idle().await;
    assert_eq!(house.ledger().len(), 1);
    house.closes_quietly().await;
}
