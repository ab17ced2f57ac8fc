//! Memberships: roles, names, coming and going. The server is the first one, or the one that
//! `guild` names.

use serde_json::Value;

use super::{actor, id, text};
use crate::standin::clock::Id;
use crate::standin::own::Reason;
use crate::standin::shared::State;

fn guild(state: &State, action: &Value) -> Result<Id, Reason> {
    let id = if action["guild"].is_null() {
        state.world.guild_id()
    } else {
        id(action, "guild")?
    };
    let known = state.world.guilds.contains_key(&id);
    if known {
        Ok(id)
    } else {
        Err(Reason::new(404, "there is no such server"))
    }
}

fn member(state: &State, action: &Value) -> Result<(Id, Id), Reason> {
    let (guild, user) = (guild(state, action)?, actor(state, action)?);
    let known = state
        .world
        .guilds
        .get(&guild)
        .is_some_and(|guild| guild.members.contains_key(&user));
    if known {
        Ok((guild, user))
    } else {
        Err(Reason::new(404, "they are not on this server"))
    }
}

/// Gives somebody exactly these roles.
pub(super) fn roles(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let (guild, user) = member(state, action)?;
    let names = action["roles"]
        .as_array()
        .ok_or_else(|| Reason::new(400, "`roles` must be a list of names"))?;
    let known = state
        .world
        .guilds
        .get(&guild)
        .map(|guild| guild.roles.as_slice())
        .unwrap_or_default();
    let roles = names.iter().map(|name| {
        let role = known
            .iter()
            .find(|role| name == role.name.as_str() || name == role.id.to_string().as_str());
        role.map(|role| role.id)
            .ok_or_else(|| Reason::new(404, format!("there is no role {name}")))
    });
    let roles = roles.collect::<Result<Vec<Id>, Reason>>()?;
    state
        .world
        .change_member(guild, user, |member| member.roles = roles);
    Ok(user)
}

/// Gives somebody a name on the server; null takes it away.
pub(super) fn nick(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let (guild, user) = member(state, action)?;
    let nick = action["nick"].as_str().map(str::to_owned);
    if nick.as_ref().is_some_and(|nick| nick.chars().count() > 32) {
        return Err(Reason::new(400, "a nickname has at most 32 characters"));
    }
    state
        .world
        .change_member(guild, user, |member| member.nick = nick);
    Ok(user)
}

/// Brings somebody onto the server.
pub(super) fn join(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let guild = guild(state, action)?;
    let name = text(action, "as")?.to_owned();
    Ok(state.world.join_guild(guild, &name))
}

/// Takes somebody off the server.
pub(super) fn leave(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let (guild, user) = member(state, action)?;
    state.world.leave_guild(guild, user);
    Ok(user)
}
