//! Money of turns that run at once: what they hold together never exceeds what is left.

use innkeeper::domain::ledger::Hold;
use innkeeper::domain::money::Usd;
use serde_json::json;

use crate::house::House;

/// Returns what is held, the least first.
fn held(house: &House) -> Vec<u64> {
    let mut amounts: Vec<u64> = holds(house).iter().map(|hold| hold.amount.0).collect();
    amounts.sort_unstable();
    amounts
}

fn holds(house: &House) -> Vec<Hold> {
    house.store().holds().unwrap()
}

/// Returns the dollars booked so far, in millionths.
fn booked(house: &House) -> u64 {
    house.ledger().iter().map(|entry| entry.cost.0).sum()
}

/// Lets people ask at the same moment, each in a thread of its own, and returns those threads.
async fn ask_at_once(house: &House, people: &[&str]) -> Vec<String> {
    let asking = people.iter().map(|who| {
        house.says(
            who,
            "data",
            "@innkeeper work\n!wait-for .go\n!cost 0.05\n!say done",
        )
    });
    futures_util::future::join_all(asking).await
}

/// Waits until so many of these turns run and the rest were refused, and returns those that run.
async fn settles<'a>(house: &House, threads: &'a [String], running: usize) -> Vec<&'a String> {
    let runs = |thread: &&String| {
        let place = house.world().place(thread);
        place.is_some_and(|place| place.live().is_some())
    };
    house
        .until("as many turns as there is money for", |_| {
            threads.iter().filter(runs).count() == running
                && refused(house, threads).len() == threads.len() - running
        })
        .await;
    threads.iter().filter(runs).collect()
}

/// Returns what was said to those who were refused, in the channel or in the thread that was open by then.
fn refused(house: &House, threads: &[String]) -> Vec<String> {
    let world = house.world();
    let told = |thread: &String| {
        let inside = world.place(thread).map(|place| place.bots());
        let above = world.place("data").map(|place| place.bots());
        let above = above
            .into_iter()
            .flatten()
            .filter(|message| message.reply_to().as_ref() == Some(thread));
        let all = inside.into_iter().flatten().chain(above);
        let mut texts = all.map(|message| message.text().to_owned());
        texts.find(|text| text.contains("is held for turns"))
    };
    threads.iter().filter_map(told).collect()
}

#[tokio::test]
async fn five_turns_at_once_hold_no_more_than_the_dollar_that_is_left() {
    let house = House::plan()
        .limits("running = 5\nrunning_per_guest = 5\nturn_usd = 0.3\n")
        .open()
        .await;
    // Of her five dollars four are spent.
    let first = house
        .says("ada", "general", "@innkeeper hello\n!cost 4")
        .await;
    house.answers(&first, 1).await;
    let spent = booked(&house);
    let left = 5_000_000 - spent;
    assert!(left <= 1_000_000, "{left}");

    let threads = ask_at_once(&house, &["ada"; 5]).await;
    let running = settles(&house, &threads, 4).await;
    assert_eq!(held(&house), [left - 900_000, 300_000, 300_000, 300_000]);
    let told = refused(&house, &threads);
    assert!(
        told[0].contains("What is left of your budget is held for turns"),
        "{told:?}"
    );
    let usage = house.command("ada", "general", "usage", json!({})).await;
    assert!(usage.contains("held"), "{usage}");

    // A turn that ends gives back what it did not need, and the next holds no more than that.
    house.lets_go(running[0]).await;
    house.answers(running[0], 1).await;
    house
        .wait("the end of a hold", || holds(&house).len() == 3)
        .await;
    let free = 5_000_000 - booked(&house) - held(&house).iter().sum::<u64>();
    let again = ask_at_once(&house, &["ada"]).await;
    settles(&house, &again, 1).await;
    assert_eq!(
        held(&house).iter().sum::<u64>() + booked(&house),
        5_000_000 - free.saturating_sub(300_000)
    );
    for thread in running[1..].iter().copied().chain(&again) {
        house.lets_go(thread).await;
        house.answers(thread, 1).await;
    }
    house.is_idle().await;
    assert!(booked(&house) <= 5_000_000, "{}", booked(&house));
    assert_eq!(house.performed(), 6);
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_hold_is_the_least_of_the_cap_the_guests_rest_and_the_projects_rest() {
    let house = House::plan()
        .limits("running = 5\nrunning_per_guest = 5\nturn_usd = 0.4\n")
        .open()
        .await;
    house.budget("ben", Usd(100_000)).await;
    let set = house
        .command(
            "alma",
            "staffroom",
            "budget project",
            json!({"project": "site", "dollars": 1.0}),
        )
        .await;
    assert!(set.contains("$1.00"), "{set}");
    // In turn, so that it is known who holds what: the guest's rest, the cap twice, the project's rest, nothing.
    let mut threads = Vec::new();
    for (who, running) in [("ben", 1), ("ada", 2), ("ada", 3), ("ada", 4)] {
        threads.extend(ask_at_once(&house, &[who]).await);
        settles(&house, &threads, running).await;
    }
    let of = |thread: &String| house.record(thread).unwrap().hold.0;
    let amounts: Vec<u64> = threads.iter().map(of).collect();
    assert_eq!(amounts, [100_000, 400_000, 400_000, 100_000]);
    let more = ask_at_once(&house, &["ada", "ben"]).await;
    settles(&house, &more, 0).await;
    let told = refused(&house, &more);
    assert!(
        told[0].contains("the budget of `site`") && told[1].contains("your budget"),
        "{told:?}"
    );
    // The owner's turns are bound by neither.
    let ask = json!({"project": "site", "prompt": "work\n!wait-for .go\n!cost 0.05"});
    let asked = house.command("olga", "data", "ask", ask).await;
    let thread = asked
        .split_once("<#")
        .and_then(|(_, rest)| rest.split_once('>'));
    threads.push(
        thread
            .unwrap_or_else(|| panic!("no thread in {asked:?}"))
            .0
            .to_owned(),
    );
    house.live(&threads[4]).await;
    assert_eq!(held(&house), [100_000, 100_000, 400_000, 400_000, 400_000]);
    for thread in &threads {
        house.lets_go(thread).await;
        house.answers(thread, 1).await;
    }
    house.closes_quietly().await;
}
