//! One damaged bit in each byte of a small database. See `unikv_sim::bit_flip`.

use unikv::Clustering;
use unikv_sim::bit_flip::{Specimen, Tally};
use unikv_sim::story;

fn flip(seed: u64, clustering: Clustering) {
    let _seed = story::scope("UNIKV_SEED", seed);
    let specimen = Specimen::build(seed, clustering);
    specimen.assert_complete();
    let mut tally = Tally::default();
    specimen.flip_all(seed, 1, &mut tally);
    specimen.damage_files(&mut tally);
    assert!(tally.flips > 1000, "{tally:?}");
    assert!(tally.refused > 0 && tally.failed_reads > 0, "{tally:?}");
}

#[test]
fn no_flipped_bit_gives_wrong_data_where_merges_copy_keys_only() {
    flip(1, Clustering::Never);
}

#[test]
fn no_flipped_bit_gives_wrong_data_where_merges_copy_values() {
    flip(2, Clustering::EveryMerge);
}
