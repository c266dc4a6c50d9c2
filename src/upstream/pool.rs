//! Shared channels by whom they belong to: started when first dialled, one start at a time for each; ended when idle;
//! started again after a fault, later each time. Knows nothing of what a channel is made of.

use super::channel::Channel;
use super::transport::{Dial, Sent, Transport, TransportError};
use crate::config;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A channel that lived so long was healthy: its end is the first fault again.
const HEALTHY: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A dial waits so long for the end of a pause; beyond it the answer is that the upstream is not reachable.
const PATIENCE: Duration = Duration::from_secs(2);
/// A channel that was idle for so long may be ended to make room for another.
const SPARE: Duration = Duration::from_secs(60);

/// How a channel comes to be: what stands behind a pool.
pub trait Start: Send + Sync + 'static {
    /// Opens a channel. Errors: it did not come up, in whatever time the maker allows for that.
    fn start(&self, stop: CancellationToken) -> Sent<Started>;
}

pub struct Started {
    pub channel: Arc<Channel>,
    /// Carries the channel until its end, or until `stop`; resolves when nothing of it is left. The pool runs it.
    pub run: BoxFuture<'static, ()>,
}

#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Most channels at a time.
    pub most: usize,
    /// A channel ends after this time without a request in flight and without a standing stream.
    pub idle: Duration,
    /// All callers share one channel: for upstreams that were declared stateless.
    pub shared: bool,
}

impl From<&config::Upstream> for PoolLimits {
    fn from(config: &config::Upstream) -> PoolLimits {
        PoolLimits { most: config.max_children as usize, idle: config.child_idle, shared: config.stateless }
    }
}

/// The channels to one upstream. Dropping it ends them, in the background; [`Dial::hang_up`] waits for that.
pub struct Pool {
    core: Arc<Core>,
}

struct Core {
    start: Arc<dyn Start>,
    limits: PoolLimits,
    slots: Mutex<HashMap<Arc<str>, Slot>>,
    tasks: TaskTracker,
    over: CancellationToken,
    sweeper: OnceLock<()>,
}

struct Slot {
    state: State,
    /// Faults in a row.
    faults: u32,
}

type Starting = Shared<BoxFuture<'static, Result<Arc<Channel>, TransportError>>>;

enum State {
    Down { until: Instant },
    Starting(Starting),
    Up(Up),
}

struct Up {
    channel: Arc<Channel>,
    stop: CancellationToken,
    since: Instant,
    gone: Arc<OnceLock<Instant>>,
}

impl Pool {
    pub fn new(start: Arc<dyn Start>, limits: PoolLimits) -> Pool {
        let core = Core {
            start,
            limits,
            slots: Mutex::default(),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
            sweeper: OnceLock::new(),
        };
        Pool { core: Arc::new(core) }
    }

    /// How many channels are up or coming up.
    pub fn len(&self) -> usize {
        self.core.slots().values().filter(|slot| slot.is_taken()).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

impl Dial for Pool {
    fn dial(&self, who: &str) -> Sent<Arc<dyn Transport>> {
        let core = self.core.clone();
        let who: Arc<str> = if core.limits.shared { "".into() } else { who.into() };
        Box::pin(async move {
            loop {
                match core.step(&who)? {
                    Step::Up(channel) => return Ok(channel as Arc<dyn Transport>),
                    Step::Starting(starting) => return Ok(starting.await? as Arc<dyn Transport>),
                    Step::Pause(pause) if pause <= PATIENCE => tokio::time::sleep(pause).await,
                    Step::Pause(_) => {
                        return Err(TransportError::Unreachable(
                            "it ended several times of late and is started again later".into(),
                        ));
                    }
                }
            }
        })
    }

    fn hang_up(&self) -> BoxFuture<'static, ()> {
        let core = self.core.clone();
        Box::pin(async move {
            core.over.cancel();
            core.tasks.close();
            core.tasks.wait().await;
        })
    }
}

enum Step {
    Up(Arc<Channel>),
    Starting(Starting),
    Pause(Duration),
}

impl Core {
    fn slots(&self) -> MutexGuard<'_, HashMap<Arc<str>, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is for `who`; begins a start where there is nothing and may be something.
    fn step(self: &Arc<Self>, who: &Arc<str>) -> Result<Step, TransportError> {
        if self.over.is_cancelled() {
            return Err(TransportError::Unreachable("the gateway is ending".into()));
        }
        let mut slots = self.slots();
        let now = Instant::now();
        if let Some(slot) = slots.get_mut(who) {
            slot.settle();
            match &slot.state {
                State::Up(up) => {
                    up.channel.touch();
                    return Ok(Step::Up(up.channel.clone()));
                }
                State::Starting(starting) => return Ok(Step::Starting(starting.clone())),
                State::Down { until } if *until > now => return Ok(Step::Pause(*until - now)),
                State::Down { .. } => {}
            }
        }
        self.make_room(&mut slots, now)?;
        let starting = self.begin(who.clone());
        let slot = slots.entry(who.clone()).or_insert(Slot { state: State::Down { until: now }, faults: 0 });
        slot.state = State::Starting(starting.clone());
        drop(slots);
        self.sweep();
        Ok(Step::Starting(starting))
    }

    fn make_room(&self, slots: &mut HashMap<Arc<str>, Slot>, now: Instant) -> Result<(), TransportError> {
        slots.values_mut().for_each(Slot::settle);
        if slots.values().filter(|slot| slot.is_taken()).count() < self.limits.most {
            return Ok(());
        }
        let idlest = slots.values_mut().filter_map(|slot| Some((slot.idle_since()?, slot)));
        let spare = idlest.min_by_key(|(since, _)| *since);
        match spare
            .is_some_and(|(since, slot)| now - since >= SPARE.min(self.limits.idle) && slot.retire(now))
        {
            true => Ok(()),
            false => Err(TransportError::Busy),
        }
    }

    /// Starts a channel, in a task of the pool: who waits for it may give up, and others wait for it too.
    fn begin(self: &Arc<Self>, who: Arc<str>) -> Starting {
        let core = self.clone();
        let stop = self.over.child_token();
        let task = self.tasks.spawn(async move {
            let started = core.start.start(stop.clone()).await;
            core.begun(&who, stop, started)
        });
        // A start does not panic but by a defect, which then is this channel's alone.
        task.map(|ended| ended.unwrap_or(Err(TransportError::Broken))).boxed().shared()
    }

    fn begun(
        &self,
        who: &Arc<str>,
        stop: CancellationToken,
        started: Result<Started, TransportError>,
    ) -> Result<Arc<Channel>, TransportError> {
        let mut slots = self.slots();
        let now = Instant::now();
        let slot = slots.entry(who.clone()).or_insert(Slot { state: State::Down { until: now }, faults: 0 });
        let Started { channel, run } = started.inspect_err(|_| slot.fault(now))?;
        let gone = Arc::<OnceLock<Instant>>::default();
        let up = Up { channel: channel.clone(), stop, since: now, gone: gone.clone() };
        slot.state = State::Up(up);
        drop(slots);
        let carried = channel.clone();
        self.tasks.spawn(async move {
            let ends = carried.gone().map(|()| gone.set(Instant::now()));
            let runs = run.map(|()| carried.end(TransportError::Broken));
            futures_util::join!(ends, runs)
        });
        Ok(channel)
    }

    /// Begins the sweeper, once.
    fn sweep(self: &Arc<Self>) {
        self.sweeper.get_or_init(|| {
            let every = (self.limits.idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(15));
            self.tasks.spawn(sweep(Arc::downgrade(self), every, self.over.clone()));
        });
    }
}

/// Ends idle channels and forgets old faults, for as long as there is a pool.
async fn sweep(core: Weak<Core>, every: Duration, over: CancellationToken) {
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let Some(core) = core.upgrade() else { return };
        let now = Instant::now();
        core.slots().retain(|_, slot| {
            slot.settle();
            if slot.idle_since().is_some_and(|since| now - since >= core.limits.idle) {
                slot.retire(now);
            }
            !matches!(slot.state, State::Down { until } if until + HEALTHY <= now)
        });
    }
}

impl Slot {
    fn is_taken(&self) -> bool {
        match &self.state {
            State::Down { .. } => false,
            State::Starting(_) => true,
            State::Up(up) => !up.channel.is_gone(),
        }
    }

    fn idle_since(&self) -> Option<Instant> {
        match &self.state {
            State::Up(up) => up.channel.idle_since(),
            _ => None,
        }
    }

    /// Takes note of a channel's end.
    fn settle(&mut self) {
        let State::Up(up) = &self.state else { return };
        if !up.channel.is_gone() {
            return;
        }
        let at = up.gone.get().copied().unwrap_or_else(Instant::now);
        if at - up.since >= HEALTHY {
            self.faults = 0;
            self.state = State::Down { until: at };
        } else {
            self.fault(at);
        }
    }

    /// Ends the channel where it is idle still, which is no fault; whether it was. Who was just given it and has not sent
    /// yet is told to dial again.
    fn retire(&mut self, now: Instant) -> bool {
        if let State::Up(up) = &self.state {
            if !up.channel.end_if_idle() {
                return false;
            }
            up.stop.cancel();
        }
        self.faults = 0;
        self.state = State::Down { until: now };
        true
    }

    fn fault(&mut self, at: Instant) {
        self.state = State::Down { until: at + pause(self.faults) };
        self.faults = self.faults.saturating_add(1);
    }
}

/// The pause after so many faults before this one: doubled each time, and between half and all of that, so that
/// pods and callers do not start in step.
fn pause(faults: u32) -> Duration {
    let full = FIRST_PAUSE.saturating_mul(1 << faults.min(16)).min(LONGEST_PAUSE);
    let mut random = [0; 2];
    aws_lc_rs::rand::fill(&mut random).expect("the system's random source does not fail once it is seeded");
    full.mul_f64(0.5 + f64::from(u16::from_le_bytes(random)) / 131_072.0)
}

#[cfg(test)]
mod tests;
