//! From an admitted turn to a running agent: workspace, inbox, scope files, command line, environment.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::agent::command::{self, Shell, Surroundings};
use crate::agent::prompt::{self, InFile};
use crate::agent::scope_files::{self, ProjectText, Scope, ScopeText};
use crate::domain::chat::Chat;
use crate::domain::grant::Level;
use crate::domain::ids::{ChannelId, MessageId, SessionId};
use crate::domain::project::{Collect, Project, Workspace};
use crate::domain::request::Attachment;
use crate::domain::turn_record::TurnRecord;
use crate::sandbox::{Confinement, Exec, Probe, SandboxError, shell};
use crate::turn::event::{Collected, Trouble};

use super::follower::{News, while_away};
use super::gate;
use super::house::House;
use super::inbox;
use super::ports::SurfaceError;
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

/// Makes sure that the run exists. Safe to repeat: a run that is there already is left as it is.
pub async fn launch(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    news: &mpsc::Sender<News>,
) -> Result<(), Trouble> {
    let run = run_of(chat, record);
    let state = while_away(news, || house.turns.state(&run))
        .await
        .map_err(trouble)?;
    if state != RunState::Absent {
        house
            .provider
            .open(&house.store, record)
            .map_err(|error| Trouble::Other(error.to_string()))?;
        return Ok(());
    }
    if record.seen > 0 {
        // What was there is gone: to start again would do everything twice.
        return Err(Trouble::Lost);
    }
    let probe = while_away(news, || house.turns.probe(&chat.account))
        .await
        .map_err(trouble)?;
    let shell = shell(house, record, &probe)?;
    clone(house, chat, record, news).await?;
    let (text, files) = bring_in(house, chat, record, &run, &probe, news).await?;
    if house
        .catalogue
        .get(&record.project)
        .is_some_and(|project| project.collect == Collect::New)
    {
        let noted = while_away(news, || house.produced.note(&run, &chat.workdir)).await;
        noted.map_err(trouble)?;
    }
    let start = start(house, chat, record, &run, &probe, shell, &text, &files).map_err(trouble)?;
    for _ in 0..STARTS {
        match house.turns.start(&run, &start).await {
            Ok(()) => return Ok(()),
            Err(StartError::AgentMissing) => return Err(Trouble::AgentMissing),
            Err(StartError::Workspace(why)) => return Err(Trouble::Workspace(why)),
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

fn shell(house: &House, record: &TurnRecord, probe: &Probe) -> Result<Shell, Trouble> {
    match (&probe.confinement, house.agent.confine) {
        (_, false) => Ok(Shell::Open),
        (Confinement::Works, true) => Ok(Shell::Confined),
        (Confinement::Missing(_), true) if house.rules.is_owner(record.request.author.member) => {
            Ok(Shell::Open)
        }
        (Confinement::Missing(why), true) => Err(Trouble::NotConfined(why.clone())),
    }
}

fn trouble(error: SandboxError) -> Trouble {
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
    let opens = attachment
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
    let write_dirs = [workdir.clone(), outbox.clone(), tmp.clone()];
    let read_dirs = [inbox.clone()];
    let domains = domains(project, record);
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
        add_dirs: std::slice::from_ref(&outbox),
        plugin_dirs: &[],
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
        secrets: access.secrets,
        settings: scope_files::settings(&Scope {
            rules: &house.agent,
            shell,
            home: &probe.home,
            write_dirs: &write_dirs,
            read_dirs: &read_dirs,
            allowed_domains: domains,
        }),
        system_prompt: system_prompt(
            house, chat, record, project, shell, &workdir, &inbox, &outbox,
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

/// What the agent's commands may reach on the network: at `ship`, what the owner listed; else nothing.
fn domains<'a>(project: Option<&'a Project>, record: &TurnRecord) -> &'a [String] {
    match project {
        Some(project) if record.level == Level::Ship => &project.allowed_domains,
        _ => &[],
    }
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
    shell: Shell,
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
    scope_files::system_prompt(&ScopeText {
        word: &chat.word,
        owners: &owners,
        opened_by: &format!("<@{}>", chat.owner),
        projects: &[ProjectText {
            slug: record.project.as_str(),
            title: project.map_or(record.project.as_str(), |project| &project.title),
            path: workdir,
            level: record.level,
            prompt: project.and_then(|project| project.system_prompt.as_deref()),
        }],
        inbox,
        outbox,
        shell,
        questions: house.agent.questions,
        skills: &[],
        prompt: house.agent.system_prompt.as_deref(),
    })
}

/// Clones a project's repository into the chat's workspace, once. Hooks of the repository run nothing: a fresh clone has none.
const CLONE: &str = r#"
take REPO DIR
[ ! -e "$DIR" ] || exit 0
GIT_TERMINAL_PROMPT=0 git clone --quiet -- "$REPO" "$DIR.new" && mv "$DIR.new" "$DIR"
"#;

/// How long a clone may take.
const CLONE_LIMIT: Duration = Duration::from_secs(300);

async fn clone(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    news: &mpsc::Sender<News>,
) -> Result<(), Trouble> {
    let Some(Workspace::Clone { repo }) = house
        .catalogue
        .get(&record.project)
        .map(|project| &project.workspace)
    else {
        return Ok(());
    };
    let exec = Exec {
        script: shell::script(CLONE),
        vars: vec![
            ("REPO", repo.clone().into_bytes()),
            (
                "DIR",
                shell::path(&chat.workdir).map_err(trouble)?.into_bytes(),
            ),
        ],
        limit: CLONE_LIMIT,
        most: 64 * 1024,
    };
    let done = while_away(news, || {
        house.ports.sandbox.exec(&chat.account, exec.clone())
    })
    .await;
    match done.map_err(trouble)?.code {
        0 => Ok(()),
        code => Err(Trouble::Workspace(format!(
            "its repository could not be cloned (git ended with {code})"
        ))),
    }
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
