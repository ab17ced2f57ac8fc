//! Says things to people, beside answers: each is kept in the store until it arrived, so that neither a restart nor a Discord
//! that is away for minutes loses one.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::ids::ChannelId;
use crate::domain::said::{Pending, PendingMenu};
use crate::store::StoreError;

use super::house::House;
use super::ports::{Button, Choice, Menu, Nonce, Ours, Post, SurfaceError};

/// The longest wait before Discord is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// After this time nobody waits for a notice any more.
const OLDEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Keeps a notice and lets it be said. It is on disk with the next flush, which the caller makes.
pub fn say(
    house: &Arc<House>,
    channel: ChannelId,
    post: &Post,
    nonce: Nonce,
) -> Result<(), StoreError> {
    let pending = Pending {
        nonce: nonce.0,
        channel,
        text: house.scrub(&post.text),
        reply_to: post.reply_to,
        ping: post.ping,
        buttons: post.buttons.iter().map(|button| button.id()).collect(),
        menu: post.menu.as_ref().map(|menu| PendingMenu {
            id: menu.choice.id(),
            options: menu.options.clone(),
        }),
        since: house.now(),
    };
    let in_doubt = house.store.is_pending(&pending.nonce)?;
    house.store.put_pending(&pending)?;
    house
        .tracker
        .spawn(deliver(house.clone(), pending, in_doubt));
    Ok(())
}

/// Says what an earlier process did not get said.
pub fn say_the_rest(house: &Arc<House>) -> Result<(), StoreError> {
    for pending in house.store.pending()? {
        house.tracker.spawn(deliver(house.clone(), pending, true));
    }
    Ok(())
}

/// `in_doubt`: it may have been sent before.
async fn deliver(house: Arc<House>, pending: Pending, in_doubt: bool) {
    // What is said must not be unknown to the next process.
    if let Err(error) = house.store.flush().await {
        return tracing::error!(%error, "a notice is not said: it could not be stored");
    }
    let sent = tokio::select! {
        () = house.cancel.cancelled() => return,
        sent = send(&house, &pending, in_doubt) => sent,
    };
    if let Err(error) = sent {
        tracing::warn!(channel = %pending.channel, %error, "a notice cannot be said");
    }
    if let Err(error) = house.store.arrived(&pending.nonce) {
        tracing::error!(%error, "could not note that a notice was said");
    }
}

async fn send(house: &House, pending: &Pending, mut in_doubt: bool) -> Result<(), SurfaceError> {
    let post = Post {
        text: pending.text.clone(),
        reply_to: pending.reply_to,
        ping: pending.ping,
        buttons: pending
            .buttons
            .iter()
            .filter_map(|id| Button::from_id(id))
            .collect(),
        menu: pending.menu.as_ref().and_then(menu),
        ..Post::default()
    };
    let mut wait = Duration::from_secs(1);
    loop {
        match attempt(house, pending, &post, in_doubt).await {
            Err(SurfaceError::Away(_)) if house.now().since(pending.since) < OLDEST => {
                in_doubt = true;
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            other => return other,
        }
    }
}

fn menu(kept: &PendingMenu) -> Option<Menu> {
    Some(Menu {
        choice: Choice::from_id(&kept.id)?,
        options: kept.options.clone(),
    })
}

/// Says it, unless it turns out to have been said: the platform forgets nonces within minutes.
async fn attempt(
    house: &House,
    pending: &Pending,
    post: &Post,
    in_doubt: bool,
) -> Result<(), SurfaceError> {
    let surface = &house.ports.surface;
    if let (true, Some(about)) = (in_doubt, pending.reply_to) {
        let ours = surface.ours_after(pending.channel, about).await?;
        let menu = pending.menu.iter().map(|menu| &menu.id);
        let buttons: Vec<&String> = menu.chain(&pending.buttons).collect();
        let same = |message: &Ours| {
            !message.silent
                // A menu tells by its id alone what it belongs to, also where the request that it replied to was deleted.
                && (message.reply_to == Some(about) || pending.menu.is_some())
                && message.buttons.iter().eq(buttons.iter().copied())
        };
        if ours.iter().any(same) {
            return Ok(());
        }
    }
    let nonce = Nonce(pending.nonce.clone());
    let said = surface.post(pending.channel, post.clone(), nonce).await;
    said.map(drop)
}
