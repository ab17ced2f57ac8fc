//! Tells the admins what needs their hand, once an hour and kind.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::ids::TurnId;

use super::house::House;
use super::ports::{Nonce, Post};

/// How often the same thing may be told.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// Posts `what` in the admin channel, where one is configured; the log has it in any case.
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
    let text = house.scrub(&crate::present::notice::alarm(what));
    let house_ = house.clone();
    house.tracker.spawn(async move {
        let post = Post {
            text,
            ..Post::default()
        };
        // The moment serves as the turn's number: no turn has one so small.
        let nonce = Nonce::of(TurnId(now.0.unsigned_abs()), "w");
        if let Err(error) = house_.ports.surface.post(channel, post, nonce).await {
            tracing::error!(%error, "could not tell the admins");
        }
    });
}
