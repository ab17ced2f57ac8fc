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
    tracing::error!(alarm = what, "admins are needed");
    let Some(channel) = house.rules.admin_channel else {
        return;
    };
    let now = house.now();
    match house.store.once(&format!("alarm/{what}"), now, EVERY) {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => tracing::error!(%error, "could not note that admins were told"),
    }
    let post = Post {
        text: notice::alarm(what),
        ..Post::default()
    };
    // The moment serves as the turn's number: no turn has one so small.
    let nonce = Nonce::of(TurnId(now.0.unsigned_abs()), "w");
    if let Err(error) = notices::say(house, channel, &post, nonce.clone()) {
        tracing::error!(%error, "could not keep what the admins are to be told");
        say_unkept(house, channel, post, nonce);
    }
}

/// Where nothing can be kept any more, it is said at once or not at all.
fn say_unkept(house: &Arc<House>, channel: ChannelId, post: Post, nonce: Nonce) {
    let surface = house.ports.surface.clone();
    house.tracker.spawn(async move {
        if let Err(error) = surface.post(channel, post, nonce).await {
            tracing::error!(%error, "could not tell the admins");
        }
    });
}
