//! Asks somebody with several projects which one a request is about. Meanwhile the request waits in the store: nothing is
//! held, nothing runs, and after a while it is forgotten.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::ids::{Slug, TurnId};
use crate::domain::request::{Request, Undecided};
use crate::domain::time::Moment;
use crate::domain::turn_record::TurnRecord;
use crate::domain::venue::Place;
use crate::present::office_chats as say;
use crate::store::StoreError;

use super::house::House;
use super::inbound::InboundPress;
use super::ports::{Choice, Menu, Nonce, Post};

/// How long a request waits for its project.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Choices of one menu (Discord).
const CHOICES: usize = 25;

/// Keeps the request and asks its author. It is on disk with the next flush, which the caller makes.
pub(super) fn ask(
    house: &Arc<House>,
    request: Request,
    place: Place,
    turn: TurnId,
    choices: &[Slug],
) -> Result<(), StoreError> {
    let now = house.now();
    house.store.forget_undecided_before(oldest(now))?;
    let post = Post {
        text: say::which_project(request.author.member, choices.len() > CHOICES),
        reply_to: request.message,
        menu: Some(Menu {
            choice: Choice::Project(turn),
            options: choices.iter().map(|slug| option(house, slug)).collect(),
        }),
        ..Post::default()
    };
    house.store.put_undecided(&Undecided {
        turn,
        request,
        place,
        at: now,
    })?;
    let house = house.clone();
    house.clone().tracker.spawn(async move {
        let surface = &house.ports.surface;
        if let Err(error) = surface
            .post(place.channel, post, Nonce::of(turn, "m"))
            .await
        {
            tracing::warn!(channel = %place.channel, %error, "nobody can be asked for a project");
        }
    });
    Ok(())
}

fn option(house: &House, slug: &Slug) -> (String, String) {
    let title = house.catalogue.get(slug).map(|it| it.title.trim());
    let label = title
        .filter(|title| !title.is_empty())
        .unwrap_or(slug.as_str());
    (label.to_owned(), slug.to_string())
}

fn oldest(now: Moment) -> Moment {
    Moment(
        now.0
            .saturating_sub(i64::try_from(PATIENCE.as_millis()).unwrap_or(i64::MAX)),
    )
}

/// Returns the request that this choice lets go on, or what the chooser is told instead. The gate is still to be asked.
pub(super) fn chosen(
    house: &House,
    turn: TurnId,
    press: &InboundPress,
) -> Result<Result<Undecided, String>, StoreError> {
    let Some(undecided) = house.store.undecided(turn)? else {
        return Ok(Err(say::not_waiting()));
    };
    if undecided.request.author.member != press.by.member || undecided.place.guild != press.guild {
        return Ok(Err(say::not_asked_of_you()));
    }
    if undecided.at < oldest(house.now()) {
        house.store.forget_undecided(turn)?;
        return Ok(Err(say::not_waiting()));
    }
    // Kept until it is a turn: it was one already where an earlier process ended in between.
    if house.store.turn(turn)?.is_some() {
        house.store.forget_undecided(turn)?;
        return Ok(Err(say::not_waiting()));
    }
    Ok(Ok(undecided))
}

/// Makes sure that the request is on the disk as a turn, and shows what was chosen in place of the question.
pub(super) async fn close(
    house: &Arc<House>,
    record: &TurnRecord,
    press: &InboundPress,
) -> Result<(), StoreError> {
    house.store.flush().await?;
    let (channel, message) = (press.channel, press.message);
    let (house, project) = (house.clone(), record.project.clone());
    house.clone().tracker.spawn(async move {
        let post = Post {
            text: say::project_chosen(&project),
            ..Post::default()
        };
        if let Err(error) = house.ports.surface.edit(channel, message, post).await {
            tracing::warn!(%channel, %error, "an answered question cannot be closed");
        }
    });
    Ok(())
}
