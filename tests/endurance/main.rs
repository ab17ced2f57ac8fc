//! Kills what serves people, at random moments and for as long as asked, and then looks whether anything was lost, doubled
//! or left behind.
//!
//! Everything is a process of its own: stand-in, bot, sandbox server, agents. What happens is drawn from a seed; when it
//! happens also depends on the machine, so a replay is the same play, not the same second.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail; clippy knows only functions marked as tests"
)]

mod house;
mod people;
mod trial;
mod trouble;
mod verdict;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use house::{Backend, House};
use people::People;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use trouble::Trouble;
use verdict::Evidence;

/// Kills of the short run that is part of the tests.
const SHORT: u32 = 40;

struct Wanted {
    kills: u32,
    seed: u64,
    backend: Option<Backend>,
    keep: bool,
}

fn main() -> ExitCode {
    let wanted = match wanted(std::env::args().skip(1)) {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return ExitCode::SUCCESS,
        Err(why) => {
            eprintln!(
                "{why}\nusage: tests/chaos [--kills N] [--seed N] [--backend local|open-terminal] [--keep]"
            );
            return ExitCode::from(2);
        }
    };
    // Who never finds anything proves nothing.
    let blind = trial::blind_spots();
    for spot in &blind {
        println!("VIOLATION: {spot}");
    }
    if !blind.is_empty() {
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(play(&wanted))
}

/// `None`: the test runner only asks what tests there are, or for others.
fn wanted(mut words: impl Iterator<Item = String>) -> Result<Option<Wanted>, String> {
    let mut wanted = Wanted {
        kills: SHORT,
        seed: 7,
        backend: None,
        keep: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text:?} is no number"));
        match word.as_str() {
            "--kills" => wanted.kills = u32::try_from(number(value()?)?).unwrap_or(u32::MAX),
            "--seed" => wanted.seed = number(value()?)?,
            "--backend" => {
                wanted.backend = Some(match value()?.as_str() {
                    "local" => Backend::Local,
                    "open-terminal" => Backend::OpenTerminal,
                    other => return Err(format!("there is no backend {other:?}")),
                })
            }
            "--keep" => wanted.keep = true,
            "--list" => return Ok(None),
            // What cargo's own test programs take.
            "--nocapture" | "--quiet" | "-q" | "--test-threads=1" => {}
            other if other.starts_with('-') => return Err(format!("{other:?} is unknown")),
            filter if "chaos".contains(filter) => {}
            _ => return Ok(None),
        }
    }
    Ok(Some(wanted))
}

/// Plays once for each backend: the kills are shared out among them.
async fn play(wanted: &Wanted) -> ExitCode {
    let backends = match wanted.backend {
        Some(backend) => vec![backend],
        None if house::open_terminal().is_none() => {
            println!("open-terminal is not installed: everything runs on the local sandbox");
            vec![Backend::Local]
        }
        None => vec![Backend::OpenTerminal, Backend::Local],
    };
    let mut left = wanted.kills;
    let mut clean = true;
    for (at, backend) in backends.iter().enumerate() {
        let share = match at + 1 == backends.len() {
            true => left,
            false => wanted.kills * 3 / 4,
        };
        left -= share;
        clean &= round(wanted, *backend, share).await;
    }
    if clean {
        // As cargo's own test programs end, for whoever counts.
        println!("test result: ok. 1 passed; 0 failed; 0 ignored");
        ExitCode::SUCCESS
    } else {
        println!("test result: FAILED. 0 passed; 1 failed; 0 ignored");
        ExitCode::FAILURE
    }
}

async fn round(wanted: &Wanted, backend: Backend, kills: u32) -> bool {
    let began = Instant::now();
    let mut random = StdRng::seed_from_u64(wanted.seed);
    let mut house = House::start(backend, "queue_depth = 4").await;
    let mut people = People::new();
    let mut trouble = Trouble::default();
    for _ in 0..kills {
        for _ in 0..random.random_range(1..=3) {
            people.act(&house, &mut random).await;
        }
        if random.random_bool(0.4) {
            trouble.of_network(&house, &mut random).await;
        }
        // The moment of a kill is drawn, not waited for.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1500))).await;
        trouble.kill(&mut house, &mut people, &mut random).await;
        people.rest(&house).await;
    }
    let mut faults = trouble.calm(&mut house).await;
    people.finish().await;
    faults.extend(verdict::settle(&mut house).await);
    let world = house.world().await;
    faults.extend(verdict::examine(&house).err());
    let evidence = Evidence::of(&house, world.clone()).await;
    let found = verdict::judge(&evidence, &people, &trouble);
    faults.extend(found.faults);
    println!(
        "{backend:?}, seed {}: {kills} kills ({}), {} network faults ({}), {} requests: {}; {:.0} s",
        wanted.seed,
        trouble.kills_told(),
        trouble.network_faults(),
        trouble.network_told(),
        people.requests.len(),
        found.told,
        began.elapsed().as_secs_f64()
    );
    if wanted.keep || !faults.is_empty() {
        house.keep();
        std::fs::write(
            house.directory.join("transcript"),
            house::transcript(&world),
        )
        .unwrap();
    }
    for fault in &faults {
        println!("VIOLATION: {fault}");
    }
    if !faults.is_empty() {
        println!(
            "replay: tests/chaos --kills {} --seed {} (everything of it lies in {})",
            wanted.kills,
            wanted.seed,
            house.directory.display()
        );
    }
    faults.is_empty()
}
