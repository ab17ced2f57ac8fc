//! Requests that wait: for the turn before them, and for a place to run.

use serde_json::json;

use crate::house::House;

#[tokio::test]
async fn requests_wait_in_their_order_with_a_mark_and_can_be_changed_and_taken_back() {
    let house = House::open().await;
    let thread = house
        .says("ada", "data", "@innkeeper start\n!wait-for .go\n!say one")
        .await;
    house.live(&thread).await;
    let two = house.says("ben", &thread, "!say two").await;
    let three = house.says("ada", &thread, "!say three").await;
    let four = house.says("ben", &thread, "!say four").await;
    let five = house.says("ada", &thread, "!say five").await;
    for waiting in [&two, &three, &four, &five] {
        house
            .until("a mark on a request that waits", |world| {
                world.message(waiting).unwrap().reactions() == ["⏳"]
            })
            .await;
    }
    house
        .act(json!({"as": "ben", "do": "edit", "message": four, "text": "!say vier"}))
        .await;
    house
        .act(json!({"as": "ada", "do": "delete", "message": five}))
        .await;
    house
        .wait("the change and the loss of waiting requests", || {
            house.record(&four).unwrap().request.text == "!say vier"
                && house.record(&five).unwrap().stage == innkeeper::domain::turn_record::Stage::Done
        })
        .await;
    house.lets_go(&thread).await;
    let answers = house.answers(&thread, 4).await;
    let texts: Vec<_> = answers.iter().map(|answer| answer.text()).collect();
    assert_eq!(
        texts,
        ["<@410537337646743552>\none", "two", "three", "vier"]
    );
    house
        .until("no mark left", |world| {
            [&two, &three, &four]
                .iter()
                .all(|id| world.message(id).unwrap().reactions().is_empty())
        })
        .await;
    assert_eq!(house.performed(), 4);
    house.closes_quietly().await;
}

#[tokio::test]
async fn more_requests_than_may_wait_are_refused_with_the_reason() {
    let house = House::plan().limits("queue_depth = 1\n").open().await;
    let thread = house
        .says("ada", "data", "@innkeeper start\n!wait-for .go")
        .await;
    house.live(&thread).await;
    house.says("ben", &thread, "second").await;
    let third = house.says("ben", &thread, "third").await;
    let told = house.reply_to(&thread, &third).await;
    assert_eq!(
        told.text(),
        "One request waits in this thread already. Ask again once one of them is done."
    );
    house.lets_go(&thread).await;
    house.answers(&thread, 2).await;
    assert_eq!(house.performed(), 2);
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_guest_runs_one_turn_at_a_time_and_sees_that_the_other_waits() {
    let house = House::open().await;
    let first = house
        .says("ada", "data", "@innkeeper first\n!wait-for .go")
        .await;
    house.live(&first).await;
    let second = house.says("ada", "data", "@innkeeper second").await;
    house
        .until("a mark on the request that waits for a place", |world| {
            world.message(&second).unwrap().reactions() == ["⏳"]
        })
        .await;
    // Another guest need not wait.
    let third = house.says("ben", "data", "@innkeeper third").await;
    house.answers(&third, 1).await;
    let live = house.live_shows(&second, "Waiting for a free place").await;
    assert!(live.pings().is_empty(), "{live:?}");
    house.lets_go(&first).await;
    house.answers(&second, 1).await;
    assert_eq!(house.thread(&second).await.receipts()[0].id(), live.id());
    house
        .until("no mark left", |world| {
            world.message(&second).unwrap().reactions().is_empty()
        })
        .await;
    house.closes_quietly().await;
}

#[tokio::test]
async fn all_guests_together_run_no_more_turns_than_there_are_places() {
    let house = House::plan().limits("running = 1\n").open().await;
    let first = house
        .says("ada", "data", "@innkeeper first\n!wait-for .go")
        .await;
    house.live(&first).await;
    let second = house
        .says("ben", "data", "@innkeeper second\n!say two")
        .await;
    house.live_shows(&second, "Waiting for a free place").await;
    // It waits for a place and can be taken back.
    let third = house.says("ben", "data", "@innkeeper third").await;
    house.live_shows(&third, "Waiting for a free place").await;
    let told = house.stops("ben", &third).await;
    assert_eq!(told, "Taken back: that request had not begun.");
    house.answers(&third, 1).await;
    let receipt = &house.thread(&third).await.receipts()[0];
    assert!(receipt.text().starts_with("-# ■ stopped by"), "{receipt:?}");
    house.lets_go(&first).await;
    house.answers(&second, 1).await;
    house.is_idle().await;
    assert_eq!(house.performed(), 2);
    house.closes_quietly().await;
}
