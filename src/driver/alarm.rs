//! Tells the admins what needs their hand, once an hour and kind.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::ids::{ChannelId, TurnId};
use crate::present::notice;

use super::house::House;
use super::notices;
use super::ports::{Nonce, Post};

/// How often the same thing may be told.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// Lets `what` be said in the admin channel, where one is configured, as soon as Discord takes it; the log has it in any case.
pub fn tell_admins(house: &Arc<House>, what: &str) {
    let Some((channel, post, nonce)) = alarm(house, what) else {
        return;
    };
    match house
        .store
        .once(&format!("alarm/{what}"), house.now(), EVERY)
    {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => tracing::error!(%error, "could not note that admins were told"),
    }
    if let Err(error) = notices::say(house, channel, &post, nonce) {
        tracing::error!(%error, "could not keep what the admins are to be told");
    }
}

/// Says it at once or never: for a house that can keep nothing any more.
pub fn tell_admins_unkept(house: &Arc<House>, what: &str) {
    let Some((channel, post, nonce)) = alarm(house, what) else {
        return;
    };
    let surface = house.ports.surface.clone();
    house.tracker.spawn(async move {
        if let Err(error) = surface.post(channel, post, nonce).await {
            tracing::error!(%error, "could not tell the admins");
        }
    });
}

fn alarm(house: &House, what: &str) -> Option<(ChannelId, Post, Nonce)> {
    tracing::error!(alarm = what, "admins are needed");
    let channel = house.rules.admin_channel?;
    let post = Post {
        text: house.scrub(&notice::alarm(what)),
        ..Post::default()
    };
    // The moment serves as the turn's number: no turn has one so small.
    let turn = TurnId(house.now().0.unsigned_abs());
    Some((channel, post, Nonce::of(turn, "w")))
}
