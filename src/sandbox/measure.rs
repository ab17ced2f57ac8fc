//! Counts what commands take and how often they fail, for the operator.

use std::future::Future;
use std::time::Instant;

use super::{Done, SandboxError};

/// Waits for a command, and notes its seconds and whether the sandbox failed it.
pub(super) async fn command(
    work: impl Future<Output = Result<Done, SandboxError>> + Send,
) -> Result<Done, SandboxError> {
    let began = Instant::now();
    let done = work.await;
    metrics::histogram!("innkeeper_sandbox_request_seconds").record(began.elapsed());
    if done.is_err() {
        metrics::counter!("innkeeper_sandbox_failures_total").increment(1);
    }
    done
}
