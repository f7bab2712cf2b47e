//! How a run goes on when the disk fails.

use super::{Interrupt, Runner, Tolerance, is_typed};
use crate::history::Exit;
use crate::oracle::{Ending, MAX_UNKNOWN};
use crate::spaces;
use crate::story;
use crate::value::Value;
use crate::verify;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use unikv::vfs::Runtime;
use unikv::vfs::sim::Keep;
use unikv::{Error, ErrorKind};

/// Operations that an episode of little space lasts.
const SHORT_OPS: u32 = 12;

impl Runner {
    /// After a failed write: reads go on; writing comes back after a flush, or else a reopening.
    pub(super) fn recover_from_fault(&mut self) -> Result<(), Interrupt> {
        self.check_all()?;
        self.crash_now();
        if self.endures() {
            return Ok(());
        }
        self.calm();
        self.resume()?;
        self.clear_up()
    }

    /// Writing comes back, or the database is opened again for that.
    pub(super) fn resume(&mut self) -> Result<(), Interrupt> {
        // A full disk has room again from here on.
        self.vfs.set_free_space(None);
        let mut flushed = false;
        let patience = match self.tolerance {
            Tolerance::AfterFault { reopens: true, .. } => 0,
            _ => 3,
        };
        for _ in 0..patience {
            let result = self.db().flush();
            flushed = self.may("flush after the fault", result)?.is_some();
            if flushed {
                self.oracle.synced();
                self.report(None);
                break;
            }
            self.let_time_pass();
        }
        if flushed && self.probe()? {
            return Ok(());
        }
        story::step("   writing does not resume; reopening".to_owned());
        self.reopen(Exit::Close, None)?;
        assert!(
            self.probe()?,
            "writing does not resume even after reopening"
        );
        Ok(())
    }

    /// Looks at what a crash right after the failed write would leave.
    fn crash_now(&self) {
        let calls = self.vfs.calls();
        let (disk, ending) = match calls % 3 {
            0 => (self.vfs.process_kill(), Ending::Kill),
            1 => (self.vfs.power_cut(Keep::Nothing), Ending::PowerCut),
            _ => (self.vfs.power_cut(Keep::Torn(calls)), Ending::PowerCut),
        };
        disk.set_free_space(None);
        let mut oracle = self.crashed();
        verify::recovered(&disk, &self.config, &mut oracle, ending);
    }

    /// Whether an episode of little space is under way.
    pub(super) fn is_short_of_space(&self) -> bool {
        matches!(&self.tolerance, Tolerance::ShortOfSpace(short) if short.load(Ordering::SeqCst))
    }

    /// Ends an episode of little space, `now` or after some operations: the engine notices by
    /// itself and takes writes again, without a call and without a reopening.
    pub fn end_shortage(&mut self, now: bool) -> Result<(), Interrupt> {
        if !self.is_short_of_space() {
            return Ok(());
        }
        self.short_ops += 1;
        if !now && self.short_ops < SHORT_OPS && self.oracle.unknowns() < MAX_UNKNOWN / 2 {
            return Ok(());
        }
        story::step("   there is space again".to_owned());
        self.vfs.set_free_space(None);
        let never = self.runtime.event();
        never.wait_past(never.epoch(), Some(Duration::from_secs(5)));
        if let Tolerance::ShortOfSpace(short) = &self.tolerance {
            short.store(false, Ordering::SeqCst);
        }
        self.short_ops = 0;
        assert!(self.probe()?, "writing does not resume by itself");
        Ok(())
    }

    /// Leaves only this many bytes of space, or all of it. Where an episode of little space is
    /// expected, one begins or ends; else the space is there again when a write has failed.
    pub(super) fn set_space(&mut self, bytes: Option<u64>) -> Result<(), Interrupt> {
        if bytes.is_none() && self.is_short_of_space() {
            return self.end_shortage(true);
        }
        self.vfs.set_free_space(bytes);
        if bytes.is_some() {
            self.short_ops = 0;
            match &self.tolerance {
                Tolerance::ShortOfSpace(short) => short.store(true, Ordering::SeqCst),
                Tolerance::None => {
                    let short = Arc::new(AtomicBool::new(true));
                    self.tolerance = Tolerance::ShortOfSpace(short);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets the background retry what failed.
    pub fn let_time_pass(&self) {
        self.runtime.delay(Duration::from_secs(10));
        self.runtime.run_until_idle();
    }

    /// Whether a write goes through.
    pub(super) fn probe(&mut self) -> Result<bool, Interrupt> {
        let value = Value::new(0xff_0000 + self.incarnation as u32, 20);
        let value = self.stored(None, value);
        let change = (b"probe".to_vec(), Some(value.clone()));
        let under_way = (vec![change.clone()], None);
        self.report(Some(&under_way));
        let result = self.db().put(b"probe", &value);
        let done = self.may("a write after the fault", result)?.is_some();
        if done {
            self.oracle.acknowledged(vec![change])
        } else {
            self.oracle.unknown(vec![change])
        }
        if done && self.config.syncs_every_write() {
            self.oracle.synced();
        }
        self.report(None);
        self.check_all()?;
        Ok(done)
    }

    /// How many calls have failed because of a fault.
    pub fn faults_seen(&self) -> u64 {
        self.faults_seen.get()
    }

    /// Reads while reads of the disk may fail: each answer is right or a typed error. So are the
    /// results of background jobs: they fail, and lose nothing.
    pub fn check_right_or_failed(&self) {
        let typed = |what: &str, err: &Error| {
            assert_eq!(
                err.kind(),
                ErrorKind::Io,
                "{what} fails with another kind: {err:?}"
            );
        };
        for round in 0..3 {
            for key in self.oracle.keys() {
                match spaces::get(self.db(), key) {
                    Ok(got) => self.check_key("get", key, got.as_deref()),
                    Err(err) => typed("get", &err),
                }
                if !spaces::is_own(key) {
                    continue;
                }
                match self.db().multi_get([key]) {
                    Ok(got) => self.check_key("multi_get", key, got[0].as_deref()),
                    Err(err) => typed("multi_get", &err),
                }
            }
            for back in [false, true] {
                let mut iter = self.db().iter();
                let own = spaces::own(self.oracle.state(), self.time());
                let mut want = own.iter();
                loop {
                    let got = if back { iter.next_back() } else { iter.next() };
                    let want = if back { want.next_back() } else { want.next() };
                    match got {
                        Some(Err(err)) => {
                            typed("a scan", &err);
                            break;
                        }
                        Some(Ok((key, value))) => {
                            let (wanted_key, wanted) = want.expect("a scan goes beyond the end");
                            assert!(
                                key == wanted_key[..] && value == wanted[..],
                                "a scan is wrong"
                            );
                        }
                        None => {
                            assert!(want.is_none(), "a scan stops early without an error");
                            break;
                        }
                    }
                }
            }
            let job = if round == 0 {
                self.db().flush()
            } else {
                self.db().compact()
            };
            if let Err(err) = job {
                assert!(is_typed(&err), "a job fails with another kind: {err:?}");
            }
        }
    }
}
