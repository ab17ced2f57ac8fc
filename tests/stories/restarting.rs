//! The bot goes and comes again.

use innkeeper::app::cli::Exit;

use crate::house::House;

#[tokio::test]
async fn a_running_turn_is_left_to_the_next_start_which_finishes_it_once() {
    let mut house = House::open().await;
    let text =
        "@innkeeper please\n!step Read a.txt\n!wait-for .go\n!write made.txt x\n!say finished";
    let thread = house.says("ada", "data", text).await;
    let live = house.live_shows(&thread, "a.txt").await;
    house.bot_goes().await;
    let shown = house.world().message(live.id()).unwrap();
    assert!(shown.text().contains("I am restarting"), "{shown:?}");
    house.bot_comes().await;
    let again = house.live_shows(&thread, "a.txt").await;
    assert_eq!(again.id(), live.id());
    house.lets_go(&thread).await;
    house.answers(&thread, 1).await;
    house.is_idle().await;
    let place = house.thread(&thread).await;
    assert_eq!(place.receipts()[0].id(), live.id());
    assert_eq!(place.answers().len(), 1, "{}", house.transcript());
    assert_eq!(place.answers()[0].files(), ["made.txt"]);
    assert_eq!((house.ledger().len(), house.performed()), (1, 1));
    house.closes_quietly().await;
}

#[tokio::test]
async fn what_ended_while_the_bot_was_away_is_answered_when_it_comes() {
    let mut house = House::open().await;
    let text = "@innkeeper please\n!step Read a.txt\n!wait-for .go\n!say finished";
    let thread = house.says("ada", "data", text).await;
    house.live_shows(&thread, "a.txt").await;
    let waiting = house.says("ben", &thread, "!say next").await;
    house
        .wait("the record of the request that waits", || {
            house.record(&waiting).is_some()
        })
        .await;
    house.bot_goes().await;
    house.lets_go(&thread).await;
    house
        .wait("the end of the run", || house.performed() == 1)
        .await;
    house.bot_comes().await;
    let answers = house.answers(&thread, 2).await;
    let texts: Vec<_> = answers.iter().map(|answer| answer.text()).collect();
    assert_eq!(texts, ["<@410537337646743552>\nfinished", "next"]);
    assert_eq!(house.ledger().len(), 2);
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_bot_that_can_keep_nothing_any_more_says_so_and_ends() {
    let mut house = House::open().await;
    let thread = house
        .says("ada", "data", "@innkeeper please\n!say hello")
        .await;
    house.answers(&thread, 1).await;
    house.is_idle().await;
    let error = house.bot_loses_its_disk().await;
    assert_eq!(error.exit(), Exit::Failed);
    assert!(error.to_string().contains("disk"), "{error}");
    house
        .until("a word to the admins", |world| {
            let words = world.place("staffroom").unwrap().bots();
            words.iter().any(|word| word.text().contains("disk"))
        })
        .await;
}
