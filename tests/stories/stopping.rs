//! Stop, by whoever may, whenever it comes.

use std::time::Duration;

use innkeeper::domain::grant::Level;
use innkeeper::domain::money::Usd;
use serde_json::json;

use crate::house::House;

const LONG: &str = "@innkeeper please wait\n!bash sleep 600";

#[tokio::test]
async fn the_author_stops_a_turn_by_its_button_and_nobody_else_can() {
    let house = House::open().await;
    let thread = house.says("ada", "data", LONG).await;
    house.live_shows(&thread, "sleep 600").await;
    for other in ["ben", "cleo"] {
        let told = house.stops(other, &thread).await;
        assert_eq!(
            told,
            "Only the author of this request, the owner of this chat and admins can stop it."
        );
    }
    assert_eq!(house.stops("ada", &thread).await, "Stopping…");
    let answer = house.answer(&thread).await;
    assert!(
        answer.text().contains("Stopped by <@410537337646743552>."),
        "{answer:?}"
    );
    let receipt = &house.thread(&thread).await.receipts()[0];
    assert!(receipt.text().starts_with("-# ■ stopped by"), "{receipt:?}");
    assert!(house.ledger()[0].cost > Usd::ZERO);
    house.closes_quietly().await;
}

#[tokio::test]
async fn an_admin_stops_a_turn_by_command_and_a_second_stop_finds_nothing() {
    let house = House::open().await;
    let thread = house.says("ada", "data", LONG).await;
    house.live_shows(&thread, "sleep 600").await;
    let refused = house.command("ben", &thread, "stop", json!({})).await;
    assert!(refused.starts_with("Only the author"), "{refused}");
    let told = house.command("alma", &thread, "stop", json!({})).await;
    assert_eq!(told, "Stopping…");
    house.answers(&thread, 1).await;
    house.is_idle().await;
    let told = house.command("alma", &thread, "stop", json!({})).await;
    assert_eq!(told, "Nothing is running here.");
    house.closes_quietly().await;
}

#[tokio::test]
async fn the_owner_of_a_chat_stops_the_turn_of_another() {
    let house = House::open().await;
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    house.says("ben", &thread, "!bash sleep 600").await;
    house.live_shows(&thread, "sleep 600").await;
    assert_eq!(house.stops("ada", &thread).await, "Stopping…");
    house.answers(&thread, 2).await;
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_turn_can_be_stopped_before_its_run_exists() {
    let house = House::open().await;
    house
        .fault(json!({"on": "GET /attachments/*/*/*", "delay_ms": 3000}))
        .await;
    let thread = house
        .says_with("ada", "data", LONG, &[("a.txt", b"a")])
        .await;
    house.live_shows(&thread, "Starting").await;
    assert_eq!(house.stops("ada", &thread).await, "Stopping…");
    let answer = house.answer(&thread).await;
    assert!(answer.text().contains("Stopped by"), "{answer:?}");
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_stop_ends_a_clone_that_hangs_and_leaves_nothing_of_it() {
    // Somebody who takes the call and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let repo = format!("http://{}/repo", silent.local_addr().unwrap());
    let house = House::plan()
        .projects(&format!(
            "[[project]]\nslug = \"mirror\"\nworkspace = \"clone\"\nrepo = {repo:?}\n"
        ))
        .open()
        .await;
    house.grant("ada", "mirror", Level::Chat).await;
    let asked = json!({"project": "mirror", "prompt": "look around"});
    let told = house.command("ada", "data", "ask", asked).await;
    let thread = told
        .split_once("<#")
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(thread, _)| thread.to_owned())
        .unwrap();
    let (_call, _) = silent.accept().await.unwrap();
    assert_eq!(house.stops("ada", &thread).await, "Stopping…");
    let asked = std::time::Instant::now();
    let answer = house.answer(&thread).await;
    assert!(answer.text().contains("Stopped by"), "{answer:?}");
    // Far from the five minutes that a clone may take.
    assert!(
        asked.elapsed() < Duration::from_secs(50),
        "{:?}",
        asked.elapsed()
    );
    assert!(!house.in_homes(&format!("chat-{thread}.new")).exists());
    assert!(!house.in_chat(&thread, "").exists());
    assert_eq!(house.ledger(), []);
    house.closes_quietly().await;
}

#[tokio::test]
async fn an_agent_that_listens_to_nothing_is_stopped_all_the_same() {
    let house = House::open().await;
    let thread = house
        .says(
            "ada",
            "data",
            "@innkeeper please\n!stubborn\n!bash sleep 600",
        )
        .await;
    house.live_shows(&thread, "sleep 600").await;
    house.stops("ada", &thread).await;
    house.answers(&thread, 1).await;
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_revoked_grant_stops_the_running_turn() {
    let house = House::open().await;
    let thread = house.says("ben", "data", LONG).await;
    house.live_shows(&thread, "sleep 600").await;
    let told = house
        .command(
            "alma",
            "general",
            "revoke",
            json!({"project": "site", "member": "ben"}),
        )
        .await;
    assert!(told.contains("site"), "{told}");
    let answer = house.answer(&thread).await;
    assert!(
        answer
            .text()
            .contains("Stopped: the author's access has ended."),
        "{answer:?}"
    );
    let next = house.says("ben", &thread, "again").await;
    let refused = house.reply_to(&thread, &next).await;
    assert!(refused.text().contains("no access"), "{refused:?}");
    house.closes_quietly().await;
}
