//! From an admitted turn to a running agent: workspace, inbox, scope files, command line, environment.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::agent::command::{self, Shell, Surroundings};
use crate::agent::prompt::{self, InFile};
use crate::agent::scope_files::{self, ProjectText, Scope, ScopeText};
use crate::domain::chat::Chat;
use crate::domain::ids::{ChannelId, MessageId, SessionId};
use crate::domain::project::{Collect, Project, Workspace};
use crate::domain::request::Attachment;
use crate::domain::turn_record::TurnRecord;
use crate::sandbox::{Exec, Probe, SandboxError, shell};
use crate::turn::event::{Collected, Trouble};

use super::follower::{News, while_away};
use super::gate;
use super::house::House;
use super::inbox;
use super::ports::SurfaceError;
use super::scope::{self, Extra, Ground};
use super::turn_directory::{Run, RunState, Start, StartError, absolute};

/// The runner ends a turn by itself this much later than the bot would: a dead bot must not leave one running for ever.
const RUNNER_LATER: Duration = Duration::from_secs(60);

/// How often a start is tried that was cut short each time, and the pause in between.
const STARTS: u32 = 20;
const BETWEEN_STARTS: Duration = Duration::from_secs(1);

/// Returns the name of a turn's present run.
pub fn run_of(chat: &Chat, record: &TurnRecord) -> Run {
    Run {
        account: chat.account.clone(),
        thread: chat.thread,
        turn: record.id,
        attempt: record.attempt,
    }
}

/// What became of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launched {
    /// The run exists.
    Runs,
    /// It was called off before there was a run; nothing half made is left.
    CalledOff,
}

/// How a start can be called off while it is being prepared.
#[derive(Clone, Debug)]
pub struct Preparing {
    /// Cancelled when it is.
    pub off: CancellationToken,
    /// Nobody tried to start this turn before, so that there cannot be a run of it.
    pub is_first: bool,
}

/// Makes sure that the run exists. Safe to repeat: a run that is there already is left as it is.
pub async fn launch(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    news: &mpsc::Sender<News>,
    preparing: &Preparing,
) -> Result<Launched, Trouble> {
    let run = run_of(chat, record);
    let state = tokio::select! {
        biased;
        () = preparing.off.cancelled(), if preparing.is_first => return Ok(Launched::CalledOff),
        state = while_away(news, || house.turns.state(&run)) => state.map_err(trouble)?,
    };
    if state != RunState::Absent {
        house
            .provider
            .open(&house.store, record)
            .map_err(|error| Trouble::Other(error.to_string()))?;
        return Ok(Launched::Runs);
    }
    if record.seen > 0 {
        // What was there is gone: to start again would do everything twice.
        return Err(Trouble::Lost);
    }
    let start = tokio::select! {
        biased;
        () = preparing.off.cancelled() => {
            undo(house, chat, record, &run).await;
            return Ok(Launched::CalledOff);
        }
        start = prepare(house, chat, record, &run, news) => start?,
    };
    for _ in 0..STARTS {
        match house.turns.start(&run, &start).await {
            Ok(()) => return Ok(Launched::Runs),
            Err(StartError::AgentMissing) => return Err(Trouble::AgentMissing),
            Err(StartError::Workspace(why)) => return Err(Trouble::Workspace(why)),
            Err(StartError::NotAlone(others)) => {
                // Their turns are over for people: given up while the sandbox was away.
                for other in others {
                    tracing::warn!(turn = %other.turn, "an earlier run of the chat still goes on and is killed");
                    while_away(news, || house.turns.kill(&other, false))
                        .await
                        .map_err(trouble)?;
                }
            }
            Err(StartError::Sandbox(SandboxError::Away(_))) => {
                // Whether it was started is not known; to start again is safe, and this waits until the sandbox is back.
                tokio::time::sleep(BETWEEN_STARTS).await;
                while_away(news, || house.turns.state(&run))
                    .await
                    .map_err(trouble)?;
            }
            Err(StartError::Sandbox(error)) => return Err(trouble(error)),
        }
    }
    Err(Trouble::SandboxAway)
}

/// Makes everything ready that a run needs, up to the very start.
async fn prepare(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    run: &Run,
    news: &mpsc::Sender<News>,
) -> Result<Start, Trouble> {
    let probe = while_away(news, || house.turns.probe(&chat.account))
        .await
        .map_err(trouble)?;
    let shell = scope::shell_for(house, chat, record, &probe)?;
    let project = house.catalogue.get(&record.project);
    scope::clone(house, run, project, &chat.workdir, news)
        .await?
        .map_err(Trouble::Workspace)?;
    let ground = scope::look(house, chat, record, news).await?;
    while_away(news, || {
        house.skills.bring(&*house.ports.sandbox, &chat.account)
    })
    .await
    .map_err(trouble)?;
    let (text, files) = bring_in(house, chat, record, run, &probe, news).await?;
    if project.is_some_and(|project| project.collect == Collect::New) {
        let noted = while_away(news, || house.produced.note(run, &chat.workdir)).await;
        noted.map_err(trouble)?;
    }
    let start = start(
        house, chat, record, run, &probe, shell, &ground, &text, &files,
    )
    .map_err(trouble)?;
    // Whoever picks the run up must know the token that it was given.
    let flushed = house.store.flush().await;
    flushed.map_err(|error| Trouble::Other(error.to_string()))?;
    Ok(start)
}

/// Removes what a start that was called off had half made.
const UNDO: &str = r#"inn CLONES | xargs -0 -r rm -rf --
take INBOX
rm -f -- "$INBOX"/.innkeeper-*
"#;

/// How long that may take; people wait for it. A clone that is left then is removed by the next start in the same place.
const UNDO_LIMIT: Duration = Duration::from_secs(20);

/// Ends what prepares a run, and removes what it had not finished: clones, and files that had not come in whole.
async fn undo(house: &House, chat: &Chat, record: &TurnRecord, run: &Run) {
    let undone = tokio::time::timeout(UNDO_LIMIT, async {
        house.turns.kill(run, house.is_alone(run)).await?;
        let mut clones = String::new();
        for unfinished in scope::unfinished_clones(house, chat, record) {
            clones.push_str(&shell::path(&unfinished)?);
            clones.push('\0');
        }
        let inbox = shell::path(&run.inbox(inbox_of(record)))?;
        let exec = Exec {
            script: shell::script(UNDO),
            vars: vec![
                ("CLONES", clones.into_bytes()),
                ("INBOX", inbox.into_bytes()),
            ],
            limit: UNDO_LIMIT,
            most: 1024,
        };
        house.ports.sandbox.exec(&chat.account, exec).await
    });
    match undone.await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(turn = %record.id, %error, "what a stopped start had made stays")
        }
        Err(_) => tracing::warn!(turn = %record.id, "what a stopped start had made stays"),
    }
}

/// Says what a failure of the sandbox means for a turn.
pub(super) fn trouble(error: SandboxError) -> Trouble {
    match error {
        SandboxError::Away(_) => Trouble::SandboxAway,
        SandboxError::Refused(_) => Trouble::SandboxRefused,
        SandboxError::Full => Trouble::Full,
        other => Trouble::Other(other.to_string()),
    }
}

/// Puts the files of the request into the inbox. A long paste becomes the words of the request.
async fn bring_in(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    run: &Run,
    probe: &Probe,
    news: &mpsc::Sender<News>,
) -> Result<(Option<String>, Vec<InFile>), Trouble> {
    let request = &record.request;
    let names = inbox::safe_names(request.attachments.iter().map(|file| file.name.as_str()));
    let channel = chat.opening.map_or(chat.place, |opening| opening.channel);
    let mut words = None;
    let mut files = Vec::new();
    for (attachment, name) in request.attachments.iter().zip(names) {
        let failed = |why: String| Trouble::Attachment {
            name: attachment.name.clone(),
            why,
        };
        let channel = attachment_channel(chat, attachment, channel);
        let bytes = house
            .ports
            .surface
            .fetch(channel, attachment, house.rules.limits.upload)
            .await
            .map_err(|error| failed(why_not_fetched(&error)))?;
        if gate::is_prompt_file(request, &attachment.name) {
            words = Some(String::from_utf8_lossy(&bytes).into_owned());
            continue;
        }
        let path = format!("{}/{name}", run.inbox(inbox_of(record)));
        while_away(news, || {
            house.ports.sandbox.put(&chat.account, &path, bytes.clone())
        })
        .await
        .map_err(|error| match error {
            SandboxError::Full => Trouble::Full,
            other => {
                tracing::warn!(turn = %record.id, error = %other, "a file could not be brought in");
                failed("the sandbox does not take it".to_owned())
            }
        })?;
        files.push(InFile {
            name: attachment.name.clone(),
            path: absolute(&probe.home, &path),
        });
    }
    Ok((words, files))
}

/// Returns the channel in which the message with the file stands: the one above, for the message that a thread hangs on.
fn attachment_channel(chat: &Chat, attachment: &Attachment, place: ChannelId) -> ChannelId {
    let opens = chat.on_message
        && attachment
            .message
            .is_some_and(|message| message.0 == chat.thread.0);
    if opens {
        chat.parent.unwrap_or(place)
    } else {
        place
    }
}

fn why_not_fetched(error: &SurfaceError) -> String {
    match error {
        SurfaceError::TooLarge => "it is larger than Discord said".to_owned(),
        SurfaceError::MessageGone => "its message is gone".to_owned(),
        SurfaceError::Away(_) => "Discord does not give it out".to_owned(),
        _ => "it could not be downloaded".to_owned(),
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "each is a different thing that only this place brings together"
)]
fn start(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    run: &Run,
    probe: &Probe,
    shell: Shell,
    ground: &Ground,
    words: &Option<String>,
    files: &[InFile],
) -> Result<Start, SandboxError> {
    let project = house.catalogue.get(&record.project);
    let place = |path: &str| absolute(&probe.home, path);
    let (workdir, inbox, outbox, tmp) = (
        place(&chat.workdir),
        place(&run.inbox(inbox_of(record))),
        place(&run.outbox()),
        place(&run.tmp()),
    );
    let extras: Vec<String> = usable(ground).map(|it| place(&it.directory)).collect();
    let mut write_dirs = vec![workdir.clone(), outbox.clone(), tmp.clone()];
    write_dirs.extend(extras.iter().cloned());
    let mut add_dirs = vec![outbox.clone()];
    add_dirs.extend(extras);
    let skills: Vec<String> = (!house.skills.is_empty())
        .then(|| place(house.skills.directory()))
        .into_iter()
        .collect();
    let mut read_dirs = vec![inbox.clone()];
    read_dirs.extend(skills.iter().cloned());
    let domains = scope::domains(house, record);
    let denied = scope_files::denied(&house.agent);
    let session = record
        .session
        .clone()
        .unwrap_or_else(|| SessionId(String::new()));
    let mut argv = vec![house.agent.command.clone()];
    argv.extend(command::flags(&command::Launch {
        rules: &house.agent,
        model: &record.model,
        session: &session,
        resumes: record.resumes,
        shell,
        settings: &place(&run.settings()),
        prompt: &place(&run.system_prompt()),
        add_dirs: &add_dirs,
        plugin_dirs: &skills,
        denied: &denied,
    }));
    let mut env = command::environment(&Surroundings {
        rules: &house.agent,
        model: &record.model,
        config_dir: &place(&run.config()),
        tmp_dir: &tmp,
        mark: &run.mark(),
    });
    let access = house
        .provider
        .open(&house.store, record)
        .map_err(|error| SandboxError::Failed(error.to_string()))?;
    env.extend(access.env);
    let taken: Vec<String> = env.iter().map(|(name, _)| name.clone()).collect();
    env.extend(
        scope::identity(&record.request.author)
            .into_iter()
            .filter(|(name, _)| !taken.contains(name)),
    );
    let mut secrets = access.secrets;
    secrets.extend(scope::credentials(house, record));
    let mut request = record.request.clone();
    if let Some(words) = words {
        request.text.clone_from(words);
    }
    let text = prompt::prompt_text(&chat.word, &request, record.level, files, &request.context);
    Ok(Start {
        workdir: chat.workdir.clone(),
        make_workdir: !matches!(
            project.map(|it| &it.workspace),
            Some(Workspace::InPlace { .. })
        ),
        argv,
        env,
        secrets,
        settings: scope_files::settings(&Scope {
            rules: &house.agent,
            shell,
            home: &probe.home,
            write_dirs: &write_dirs,
            read_dirs: &read_dirs,
            allowed_domains: &domains,
        }),
        system_prompt: system_prompt(
            house, chat, record, project, probe, shell, ground, &workdir, &inbox, &outbox,
        ),
        first_line: prompt::user_line(&line_id(record), &text),
        ceiling: house.rules.limits.turn_time + RUNNER_LATER,
    })
}

/// A line's id that the session has seen before is echoed and then ignored for ever (measured, 2.1.197): each run needs its own.
fn line_id(record: &TurnRecord) -> String {
    format!("{}.{}", record.id, record.attempt)
}

/// Each request has a directory of its own in the inbox.
fn inbox_of(record: &TurnRecord) -> MessageId {
    record.request.message.unwrap_or(MessageId(record.id.0))
}

#[expect(
    clippy::too_many_arguments,
    reason = "each is a different thing that only this place brings together"
)]
fn system_prompt(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    project: Option<&Project>,
    probe: &Probe,
    shell: Shell,
    ground: &Ground,
    workdir: &str,
    inbox: &str,
    outbox: &str,
) -> String {
    let owners: Vec<String> = house
        .rules
        .owners
        .iter()
        .map(|owner| format!("<@{owner}>"))
        .collect();
    let places: Vec<String> = ground
        .extras
        .iter()
        .map(|extra| absolute(&probe.home, &extra.directory))
        .collect();
    let mut projects = vec![ProjectText {
        slug: record.project.as_str(),
        title: project.map_or(record.project.as_str(), |project| &project.title),
        path: workdir,
        level: record.level,
        prompt: project.and_then(|project| project.system_prompt.as_deref()),
        trouble: None,
    }];
    projects.extend(ground.extras.iter().zip(&places).map(|(extra, path)| {
        let project = house.catalogue.get(&extra.slug);
        ProjectText {
            slug: extra.slug.as_str(),
            title: project.map_or(extra.slug.as_str(), |project| &project.title),
            path,
            level: extra.level,
            prompt: project.and_then(|project| project.system_prompt.as_deref()),
            trouble: extra.trouble.as_deref(),
        }
    }));
    scope_files::system_prompt(&ScopeText {
        word: &chat.word,
        owners: &owners,
        opened_by: &format!("<@{}>", chat.owner),
        projects: &projects,
        inbox,
        outbox,
        shell,
        questions: house.agent.questions,
        skills: house.skills.names(),
        own_skills: &ground.skills,
        about: &ground.about,
        prompt: house.agent.system_prompt.as_deref(),
    })
}

/// Returns the further projects that the turn can work in.
fn usable(ground: &Ground) -> impl Iterator<Item = &Extra> {
    ground.extras.iter().filter(|extra| extra.trouble.is_none())
}

/// Looks for what the turn made or changed.
pub async fn collect(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    run: &Run,
) -> Result<Collected, SandboxError> {
    let how = house
        .catalogue
        .get(&record.project)
        .map_or(Collect::Outbox, |project| project.collect);
    house.produced.look(run, &chat.workdir, how).await
}
