//! Histograms of what is seen with every call. An observation is two additions, where one that a scrape must not see by halves
//! is four and a loop: here a scrape may see the number of an observation and not yet its share of the sum.

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// One histogram, of whole numbers.
pub struct Tally {
    /// The most that each bucket takes, rising.
    bounds: Arc<[u64]>,
    /// How many each took; the last is of those above all bounds.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Tally {
    fn new(bounds: Arc<[u64]>) -> Tally {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Tally { bounds, counts, sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: u64) {
        // Most of what is seen is small.
        let bucket = self.bounds.iter().position(|most| value <= *most).unwrap_or(self.bounds.len());
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// As it is told: in units of so many of what was observed.
    fn told(&self, unit: f64) -> Histogram {
        let mut many = 0;
        let mut buckets = Vec::with_capacity(self.bounds.len());
        for (most, count) in self.bounds.iter().zip(&self.counts) {
            many += count.load(Relaxed);
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*most as f64 / unit);
            bucket.set_cumulative_count(many);
            buckets.push(bucket);
        }
        many += self.counts[self.bounds.len()].load(Relaxed);
        let mut told = Histogram::default();
        told.set_bucket(buckets);
        told.set_sample_count(many);
        told.set_sample_sum(self.sum.load(Relaxed) as f64 / unit);
        told
    }
}

/// The histograms of one name, by the values of their labels. Clones share them.
#[derive(Clone)]
pub struct Tallies(Arc<Family>);

struct Family {
    desc: Desc,
    bounds: Arc<[u64]>,
    unit: f64,
    all: RwLock<BTreeMap<Vec<String>, Arc<Tally>>>,
}

impl Tallies {
    /// `bounds` are in the unit that is told, of which `unit` is how many of what is observed make one. Errors: a name or
    /// label that Prometheus does not take.
    pub fn new(
        name: &str,
        help: &str,
        labels: &[&str],
        bounds: &[f64],
        unit: f64,
    ) -> prometheus::Result<Tallies> {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?;
        let bounds = bounds.iter().map(|most| (most * unit).round() as u64).collect();
        Ok(Tallies(Arc::new(Family { desc, bounds, unit, all: RwLock::default() })))
    }

    /// The one of these values, as many as there are labels and in their order.
    pub fn with(&self, values: &[&str]) -> Arc<Tally> {
        debug_assert_eq!(values.len(), self.0.desc.variable_labels.len());
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        if let Some(known) = self.0.all.read().unwrap_or_else(PoisonError::into_inner).get(&values) {
            return known.clone();
        }
        let mut all = self.0.all.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(values).or_insert_with(|| Arc::new(Tally::new(self.0.bounds.clone()))).clone()
    }
}

impl Collector for Tallies {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Family { desc, unit, all, .. } = &*self.0;
        let label = |(name, value): (&String, &String)| {
            let mut label = LabelPair::default();
            label.set_name(name.clone());
            label.set_value(value.clone());
            label
        };
        let metric = |(values, tally): (&Vec<String>, &Arc<Tally>)| {
            let mut metric = Metric::from_label(desc.variable_labels.iter().zip(values).map(label).collect());
            metric.set_histogram(tally.told(*unit));
            metric
        };
        let mut family = MetricFamily::default();
        family.set_name(desc.fq_name.clone());
        family.set_help(desc.help.clone());
        family.set_field_type(MetricType::HISTOGRAM);
        let all = all.read().unwrap_or_else(PoisonError::into_inner);
        family.set_metric(all.iter().map(metric).collect());
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Encoder, HistogramOpts, HistogramVec, Registry, TextEncoder};

    fn told(collector: Box<dyn Collector>) -> String {
        let registry = Registry::new();
        registry.register(collector).unwrap();
        let mut text = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_is_told_is_what_prometheus_own_histogram_tells() {
        let bounds = [0.001, 0.5, 2.0];
        let opts = HistogramOpts::new("h", "Help.").buckets(bounds.to_vec());
        let theirs = HistogramVec::new(opts, &["era", "method"]).unwrap();
        let ours = Tallies::new("h", "Help.", &["era", "method"], &bounds, 1e6).unwrap();
        for (values, micros) in [
            (["a", "x"], 0),
            (["a", "x"], 1_000),
            (["a", "x"], 1_001),
            (["a", "y"], 500_000),
            (["b", "x"], 2_000_001),
        ] {
            theirs.with_label_values(&values).observe(micros as f64 / 1e6);
            ours.with(&values).observe(micros);
        }
        assert_eq!(told(Box::new(ours)), told(Box::new(theirs)));
    }
}
