//! How far a secondary has come, and how it goes on. The rules are in [`super`].

use super::files::Files;
use super::memtables::LogMemtables;
use super::shared::{Figures, LogOf, Shared, Shown, ShownLog, World, Writer};
use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::open::progress as opening;
use crate::engine::open::recovery::{self, Allowance, WalReplay};
use crate::engine::read::ReadState;
use crate::engine::visible_page::{FollowedPage, VisibleSeq};
use crate::error::{Error, ErrorKind, Result};
use crate::log::replay;
use crate::partition::{MemtableHandle, View};
use crate::version::Version;
use crate::version::file_names;
use crate::version::manifest::Manifest;
use std::sync::Arc;
use std::time::Duration;

/// Tries after which an error is believed although nothing has moved meanwhile: what was read may
/// have moved just before it was looked at.
const MOST_UNMOVED: u32 = 3;
/// Tries after which it is believed in any case.
const MOST_TRIES: u32 = 200;
/// The longest rest between two of them.
const MOST_REST: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct Progress {
    /// Of the opening that is followed.
    page: Option<FollowedPage>,
    files: Files,
    log: LogMemtables,
    /// What there was to see when the last state was made.
    shown: Option<World>,
    /// What the last state was made of, beside a writer.
    made_of: Option<(SeqNo, Arc<Version>)>,
}

impl Progress {
    /// What is visible now, if there is something new.
    pub(super) fn refresh(&mut self, shared: &Shared, figures: &Figures) -> Result<Option<Shown>> {
        let (mut unmoved, mut tries) = (0, 0);
        loop {
            let world = self.look(shared);
            let tried = match &world {
                Ok(world) => self.follow(shared, figures, world),
                Err(error) => Err(error.clone()),
            };
            let error = match tried {
                Ok(shown) => return Ok(shown),
                Err(error) => error,
            };
            let now = self.look(shared);
            let is_same = matches!((&world, &now), (Ok(then), Ok(now)) if then == now);
            unmoved += u32::from(is_same);
            tries += 1;
            let may_pass = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io)
                || matches!(error.kind(), ErrorKind::NotFound);
            if !may_pass || unmoved >= MOST_UNMOVED || tries >= MOST_TRIES {
                return Err(error);
            }
            figures.retries.fetch_add(1, Ordering::Relaxed);
            if tries > 2 {
                let rest = Duration::from_micros(100) * tries;
                shared.core.store.env().runtime.delay(rest.min(MOST_REST));
            }
        }
    }

    /// What the writer has made visible, if there is one.
    pub(super) fn published_seq(&self) -> Option<SeqNo> {
        let visible = self.page.as_ref()?.visible();
        visible.map(|visible| visible.seq)
    }

    /// Looks who writes. A page that is held is that of the one opening there can be.
    pub(super) fn look(&mut self, shared: &Shared) -> Result<World> {
        let store = &shared.core.store;
        let held = |page: &FollowedPage| page.is_held(store.dir());
        let is_known = match &self.page {
            Some(page) => held(page)?,
            None => false,
        };
        if !is_known {
            self.page = FollowedPage::open(store)?;
        }
        let writer = match &self.page {
            Some(page) if held(page)? => match page.visible() {
                Some(_) => Writer::Opened(page.uid(), page.edits()),
                None => Writer::Opening(page.uid()),
            },
            page => Writer::Nobody(page.as_ref().map(FollowedPage::uid)),
        };
        let manifest = Manifest::read_current(&*store.env().vfs, store.dir())?.uid;
        Ok(World { writer, manifest })
    }

    fn follow(
        &mut self,
        shared: &Shared,
        figures: &Figures,
        world: &World,
    ) -> Result<Option<Shown>> {
        let was_of = self.shown.as_ref().map(|shown| &shown.writer);
        let is_opened_again = match (&world.writer, was_of) {
            (Writer::Opened(uid, _), Some(Writer::Opened(was, _))) => uid != was,
            // What was shown stays until there is something else to show.
            (Writer::Opening(_), Some(_)) => return Ok(None),
            (Writer::Nobody(_), Some(was)) if *was == world.writer => {
                let is_same = self.shown.as_ref() == Some(world);
                if is_same {
                    return Ok(None);
                }
                true
            }
            _ => true,
        };
        if is_opened_again {
            figures.reloads.fetch_add(1, Ordering::Relaxed);
            self.files.begin_again();
            self.log.begin_again();
            (self.shown, self.made_of) = (None, None);
        }
        let shown = match world.writer {
            Writer::Opened(..) => self.follow_writer(shared)?,
            _ => Some(self.recover(shared, world)?),
        };
        self.shown = Some(world.clone());
        Ok(shown)
    }

    /// Goes on beside a writer.
    fn follow_writer(&mut self, shared: &Shared) -> Result<Option<Shown>> {
        let page = self.page.clone();
        let page = page.ok_or_else(|| Error::internal("a writer without a page"))?;
        let store = &shared.core.store;
        let (version, edits, visible) = self.agree(shared, &page)?;
        let flushed = version.counters.flushed_seq;
        self.log
            .read_on(shared, &self.files, &version, edits, visible.logged)?;
        let reached = self.log.last_seq().max(flushed);
        if reached < visible.logged {
            let (file, offset) = self.log.place();
            let what = format!(
                "the log ends at write {} and was written up to {}",
                reached.0, visible.logged.0
            );
            return Err(Error::corruption(file, offset, what));
        }
        let seq = visible.seq;
        let memtables = self.log.memtables(shared);
        let each = [&memtables.0].into_iter().chain(&memtables.1);
        self.files.hold_large(shared, each)?;
        if !page.is_held(store.dir())? {
            let what = "the writer has closed the database meanwhile";
            return Err(Error::corruption(store.dir(), 0, what));
        }
        let is_same = self
            .made_of
            .as_ref()
            .is_some_and(|(was, of)| *was == seq && Arc::ptr_eq(of, &version));
        if is_same {
            return Ok(None);
        }
        self.made_of = Some((seq, Arc::clone(&version)));
        let (memtable, sealed) = memtables;
        let expires = self.log.expires();
        let log = ShownLog::new(
            LogOf::Writer(page),
            &version.counters,
            edits,
            (seq, visible.logged),
            (self.log.last_seq(), self.log.claimed()),
        );
        Ok(Some(shared.show(
            version,
            (memtable, sealed),
            expires,
            (seq, log),
        )))
    }

    /// The edits that are in force, applied, and a number that depends on no later ones.
    fn agree(
        &mut self,
        shared: &Shared,
        page: &FollowedPage,
    ) -> Result<(Arc<Version>, u64, VisibleSeq)> {
        let too_early = || Error::internal("a database that is opened shows nothing");
        let mut ingests = 0;
        for _ in 0..MOST_TRIES {
            let edits = page.edits();
            let log = &self.log;
            let version = self
                .files
                .follow(shared, edits, &|number| log.large_file(number))?;
            let visible = page.visible();
            if page.edits() != edits && !seeded!(SecondaryMissesEdits) {
                continue;
            }
            let visible = visible.ok_or_else(too_early)?;
            let is_visible = version.counters.flushed_seq <= visible.seq;
            if is_visible || seeded!(SecondaryMissesEdits) {
                return Ok((version, self.files.edits(), visible));
            }
            // The edit of an ingest is in force, and its number comes next.
            ingests += 1;
            let rest = Duration::from_micros(100) * ingests;
            shared.core.store.env().runtime.delay(rest.min(MOST_REST));
        }
        let what = if ingests > 0 {
            "the writer has stopped in the middle of an ingest"
        } else {
            "the manifest grows faster than it can be read"
        };
        Err(Error::corruption(shared.core.store.dir(), 0, what))
    }

    /// What recovery would bring back.
    fn recover(&mut self, shared: &Shared, world: &World) -> Result<Shown> {
        let core = &shared.core;
        let (store, cache) = (&core.store, &core.cache);
        let survey = file_names::survey(&*store.env().vfs, store.dir())?;
        let mut manifest = Manifest::recover(&*store.env().vfs, store.dir())?;
        if manifest.database != store.database() {
            return Err(another_database(shared));
        }
        let segments = recovery::wal_segments(&survey);
        manifest.check_edits(replay::max_manifest_edits(store, &segments)?)?;
        let edits = std::mem::take(&mut manifest.edits);
        let path = &manifest.path;
        let mut version = recovery::build_version(store, cache, path, edits.into_iter(path))?;
        self.files.note_version(shared, &version)?;
        recovery::forget_lost_runs(store, &mut version);
        let nobody = opening::Progress::begin(None, &store.env().runtime);
        recovery::check_files(store, &version, &nobody)?;
        let bytes = core.memory.plan.memtable_bytes;
        let replayed = WalReplay::new(store, cache, &core.pool, bytes, path);
        let replayed = replayed.within(Allowance::beside(shared.budget, &version, 0));
        let replayed = replayed.run(&survey, &version, &nobody)?;
        manifest.check_edits(replayed.outcome.manifest_edits)?;
        self.files.enter(shared, &mut version)?;
        self.files.open_all(shared, &version)?;
        self.files.hold_large(shared, &replayed.memtables)?;
        if self.look(shared)? != *world {
            let what = "a writer has opened the database meanwhile";
            return Err(Error::corruption(store.dir(), 0, what));
        }
        let outcome = &replayed.outcome;
        let seq = version.counters.flushed_seq.max(outcome.last_seq);
        let log = ShownLog::new(
            LogOf::Nobody(world.clone(), outcome.last),
            &version.counters,
            manifest.edit_count,
            (seq, seq),
            (outcome.last_seq, outcome.claimed),
        );
        let mut memtables: Vec<MemtableHandle> = replayed.memtables;
        let newest = memtables.pop().unwrap_or_else(|| self.log.empty(shared));
        memtables.reverse();
        let version = Arc::new(version);
        Ok(shared.show(version, (newest, memtables), replayed.expires, (seq, log)))
    }
}

fn another_database(shared: &Shared) -> Error {
    let path = shared.core.store.dir().join(file_names::CURRENT);
    let what = "another database has taken the place of the one that was followed";
    Error::incompatible(&path, what, "open another secondary")
}

impl Shared {
    /// The state of `version` and memtables, the newest one and the others, at a number.
    fn show(
        &self,
        version: Arc<Version>,
        (memtable, sealed): (MemtableHandle, Vec<MemtableHandle>),
        expires: bool,
        (seq, log): (SeqNo, ShownLog),
    ) -> Shown {
        let core = &self.core;
        if expires || version.expires() {
            core.clock.need();
        }
        let view = View {
            memtable,
            sealed,
            version,
            clock: Arc::clone(&core.clock),
        };
        // Where memory is short, what older states hold goes with those who hold them.
        let _is_short = core.memory.look_at(&view);
        Shown {
            commit_tag: view.commit_tag(seq),
            commit_tag_in_memory: view.commit_tag_in_memory(seq),
            read: ReadState::new(core, &self.space, &self.backpressure, view, seq),
            seq,
            is_live: matches!(log.of, LogOf::Writer(_)),
            log: Arc::new(log),
        }
    }
}
