//! From a mention to an answer.

use innkeeper::domain::money::Usd;
use serde_json::json;

use crate::house::House;

#[tokio::test]
async fn a_mention_opens_a_thread_with_a_live_message_an_answer_with_its_picture_and_a_receipt() {
    let house = House::open().await;
    let csv = b"month,sales\n1,120\n2,180\n3,150\n";
    let thread = house
        .says_with(
            "ada",
            "data",
            "@innkeeper plot the sales",
            &[("data.csv", csv)],
        )
        .await;
    let live = house.live(&thread).await;
    assert!(live.pings().is_empty(), "{live:?}");
    let answer = house.answer(&thread).await;
    assert_eq!(answer.pings(), ["ada"]);
    assert_eq!(answer.files(), ["plot.png"]);
    let place = house.thread(&thread).await;
    assert_eq!(place.name(), "plot the sales");
    let receipt = &place.receipts()[0];
    assert_eq!(receipt.id(), live.id());
    assert!(receipt.text().starts_with("-# ✓ "), "{receipt:?}");
    let ledger = house.ledger();
    assert_eq!(ledger.len(), 1);
    assert_eq!(ledger[0].member, house.member("ada"));
    assert!(ledger[0].cost > Usd::ZERO);
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_second_speaker_pays_his_own_turn_and_gets_a_reply() {
    let house = House::open().await;
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    let second = house
        .says("ben", &thread, "and which month was the best?")
        .await;
    let reply = house.reply_to(&thread, &second).await;
    assert_eq!(reply.pings(), ["ben"], "{}", house.transcript());
    assert!(reply.text().contains("Hello ben"), "{reply:?}");
    house.answers(&thread, 2).await;
    let payers: Vec<_> = house.ledger().iter().map(|entry| entry.member).collect();
    assert_eq!(payers, [house.member("ada"), house.member("ben")]);
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_stranger_is_told_once_and_nothing_of_it_reaches_the_agent() {
    let house = House::open().await;
    let first = house
        .says("cleo", "general", "@innkeeper what is in site?")
        .await;
    let told = house.reply_to("general", &first).await;
    assert!(told.text().contains("no access"), "{told:?}");
    house.says("cleo", "general", "@innkeeper please").await;
    // In the order of arrival: when this one is answered, the stranger's has been dealt with.
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    house.says("cleo", &thread, "let me in").await;
    house.says("ada", &thread, "again").await;
    house.answers(&thread, 2).await;
    let told = house.world().place("general").unwrap().bots();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(house.world().threads(), 1);
    assert_eq!(house.performed(), 2);
    house.closes_quietly().await;
}

#[tokio::test]
async fn ask_opens_a_thread_in_a_channel_and_goes_on_in_it() {
    let house = House::open().await;
    let told = house
        .command(
            "ada",
            "data",
            "ask",
            json!({"project": "site", "prompt": "hello there"}),
        )
        .await;
    let thread = told
        .split_once("<#")
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(id, _)| id.to_owned())
        .unwrap_or_else(|| panic!("no thread in {told:?}"));
    let answer = house.answer(&thread).await;
    assert_eq!(answer.pings(), ["ada"]);
    house
        .command(
            "ada",
            &thread,
            "ask",
            json!({"project": "site", "prompt": "once more"}),
        )
        .await;
    let answers = house.answers(&thread, 2).await;
    assert!(
        answers
            .iter()
            .any(|it| it.text().contains("request number 2")),
        "{answers:?}"
    );
    house.closes_quietly().await;
}

#[tokio::test]
async fn in_peoples_own_thread_a_mention_is_answered_in_place_and_only_mentions_count() {
    let house = House::open().await;
    let thread = house
        .act(json!({"as": "ada", "do": "thread", "in": "data", "name": "our talk"}))
        .await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let first = house.says("ada", &thread, "@innkeeper hello").await;
    let answer = house.reply_to(&thread, &first).await;
    assert_eq!(answer.pings(), ["ada"]);
    house.answers(&thread, 1).await;
    house.says("ben", &thread, "I like blue").await;
    house.says("cleo", &thread, "I like red").await;
    let second = house
        .says("ada", &thread, "@innkeeper what was said?")
        .await;
    house.answers(&thread, 2).await;
    let told = house.told(&thread, &second);
    assert!(
        told.contains("[quoted, said in the thread before, by ben]\n> I like blue"),
        "{told}"
    );
    assert!(!told.contains("red"), "{told}");
    assert_eq!(house.performed(), 2);
    assert_eq!(house.world().threads(), 1);
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_post_in_a_forum_is_answered_in_the_post() {
    let house = House::open().await;
    let post = house
        .act(json!({"as": "ada", "do": "post", "in": "ideas", "name": "An idea", "text": "@innkeeper hello"}))
        .await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = house.answer(&post).await;
    assert_eq!(answer.pings(), ["ada"]);
    // The first message of a post stands in the post, so a reply reaches it.
    assert_eq!(answer.reply_to(), Some(post));
    assert!(answer.text().contains("Hello ada"), "{answer:?}");
    house.closes_quietly().await;
}

#[tokio::test]
async fn what_is_meant_for_others_is_quoted_with_the_next_request() {
    let house = House::open().await;
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    house
        .says("ada", &thread, "@ben do we want it in blue?")
        .await;
    house.says("cleo", &thread, "@ben say red").await;
    let next = house.says("ben", &thread, "make it so").await;
    house.answers(&thread, 2).await;
    let told = house.told(&thread, &next);
    assert!(
        told.contains("[quoted, said in the thread before, by ada]\n> "),
        "{told}"
    );
    assert!(told.contains("do we want it in blue?"), "{told}");
    assert!(!told.contains("red"), "{told}");
    assert_eq!(house.performed(), 2);
    house.closes_quietly().await;
}
