//! GBIF: pages by offset, without a login; fields that the list does not have are fetched.

use super::*;

/// Records of the puma of 2024 that the server has.
const SEEN: usize = 700;

fn taxon(id: i64, name: &str, rank: &str, status: &str) -> Json {
    json!({
        "key": id, "nubKey": id, "datasetKey": "d7dddbf4-2cf0-4f39-9b2a-bb099caae36c", "parentKey": 2_435_098, "parent": "Puma",
        "kingdom": "Animalia", "phylum": "Chordata", "order": "Carnivora", "family": "Felidae", "genus": "Puma",
        "scientificName": format!("{name} (Linnaeus, 1771)"), "canonicalName": name, "authorship": "(Linnaeus, 1771)",
        "rank": rank, "taxonomicStatus": status, "numDescendants": 6, "synonym": status != "ACCEPTED", "issues": [],
    })
}

fn taxa() -> Vec<Json> {
    vec![
        taxon(2_435_099, "Puma concolor", "SPECIES", "ACCEPTED"),
        taxon(2_435_146, "Puma yagouaroundi", "SPECIES", "ACCEPTED"),
        taxon(2_435_100, "Felis concolor", "SPECIES", "SYNONYM"),
        taxon(6_164_589, "Puma concolor cougar", "SUBSPECIES", "ACCEPTED"),
    ]
}

fn occurrence(n: usize) -> Json {
    json!({
        "key": 4_000_000_000_u64 + n as u64, "datasetKey": "50c9509d-22c7-4a22-a47d-8c48425ef4a7", "publishingCountry": "US",
        "basisOfRecord": "HUMAN_OBSERVATION", "occurrenceStatus": "PRESENT", "taxonKey": 2_435_099, "speciesKey": 2_435_099,
        "species": "Puma concolor", "countryCode": (["AR", "US", "US", "CL"][n % 4]), "decimalLatitude": -34.5, "decimalLongitude": -58.4,
        "eventDate": if n == 0 { "2024-12-24/2024-12-26".to_owned() } else { format!("2024-{:02}-03T08:15", 12 - n % 12) },
        "year": 2024, "month": 12 - n % 12, "day": 3, "recordedBy": "A. Walker", "issues": [],
    })
}

/// A page, as GBIF bounds it.
fn page(seen: &Seen, largest: usize, rows: &[Json]) -> Says {
    let number = |name: &str, else_: usize| seen.parameter(name).map_or(else_, |text| text.parse().unwrap());
    let (offset, limit) = (number("offset", 0), number("limit", 20).min(largest));
    let shown: Vec<&Json> = rows.iter().skip(offset).take(limit).collect();
    let end = offset + limit >= rows.len();
    json!({"offset": offset, "limit": limit, "endOfRecords": end, "count": rows.len(), "results": shown})
        .into()
}

fn says(seen: &Seen) -> Says {
    assert_eq!(seen.header("authorization"), None, "it knows no login");
    let is = |row: &Json, parameter: &str, key: &str| {
        seen.parameter(parameter).is_none_or(|want| request::text(&row[key]) == want)
    };
    let path = seen.target().split('?').next().unwrap().strip_prefix("/v1").unwrap();
    match path {
        "/species/search" => {
            assert_eq!(seen.parameter("datasetKey").as_deref(), Some("d7dddbf4-2cf0-4f39-9b2a-bb099caae36c"));
            let mut found = taxa();
            found.retain(|row| is(row, "rank", "rank") && is(row, "status", "taxonomicStatus") && is(row, "highertaxonKey", "parentKey"));
            page(seen, 1000, &found)
        }
        "/species/2435098/children" => page(seen, 1000, &taxa()[..2]),
        "/occurrence/search" => {
            let rows: Vec<Json> = (0..SEEN).map(occurrence).filter(|row| is(row, "country", "countryCode")).collect();
            page(seen, 300, &rows)
        }
        "/dataset/50c9509d-22c7-4a22-a47d-8c48425ef4a7" => json!({
            "key": "50c9509d-22c7-4a22-a47d-8c48425ef4a7", "title": "iNaturalist Research-grade Observations", "type": "OCCURRENCE",
            "license": "http://creativecommons.org/licenses/by-nc/4.0/legalcode", "homepage": "https://www.inaturalist.org/",
        })
        .into(),
        path => {
            let id = path.strip_prefix("/species/").and_then(|id| id.parse::<i64>().ok());
            match taxa().into_iter().find(|row| row["key"].as_i64() == id) {
                Some(mut row) => {
                    let common = if id == Some(2_435_099) { json!("Cougar") } else { Json::Null };
                    row["vernacularName"] = common;
                    row.into()
                }
                None => answer("404 Not Found", "content-type: text/html\r\n", "<html>not found</html>"),
            }
        }
    }
}

async fn gbif() -> (Bench, Server) {
    let server = Server::start(|_, seen| says(seen)).await;
    (Bench::new("gbif", &server, "/v1"), server)
}

#[tokio::test]
async fn the_programs_of_its_page_bring_what_gbif_has() {
    let (bench, server) = gbif().await;
    let [which, named, most, newest] = programs("gbif").try_into().unwrap();

    let ran = bench.run(&which).await;
    let pumas = json!([
        [2_435_099, "Puma concolor (Linnaeus, 1771)", "Felidae"],
        [2_435_146, "Puma yagouaroundi (Linnaeus, 1771)", "Felidae"]
    ]);
    assert_eq!((tables(&ran), ran.roots[0].coverage), (vec![pumas], Covered::Complete));
    let asked = server.targets().remove(0);
    let dataset = "datasetKey=d7dddbf4-2cf0-4f39-9b2a-bb099caae36c";
    assert_eq!(
        asked,
        format!("/v1/species/search?{dataset}&q=puma&rank=SPECIES&status=ACCEPTED&offset=0&limit=100")
    );

    assert_eq!(
        bench.plan(&named).nodes.iter().flat_map(|node| &node.fetched).collect::<Vec<_>>(),
        ["common_name"]
    );
    let ran = bench.run(&named).await;
    assert_eq!(tables(&ran), [json!([["Puma concolor", "Cougar"], ["Puma yagouaroundi", null]])]);
    assert_eq!(ran.requests, 3);

    let ran = bench.run(&most).await;
    assert_eq!(
        (tables(&ran), ran.roots[0].coverage),
        (vec![json!([["US", 350], ["AR", 175], ["CL", 175]])], Covered::Complete)
    );
    // 700 records in pages of 300; of the taxon nothing but its key is needed.
    assert_eq!(ran.requests, 3);

    let ran = bench.run(&newest).await;
    assert_eq!(
        tables(&ran),
        [
            json!([
                [4_000_000_000_u64, "2024-12-24", "A. Walker"],
                [4_000_000_004_u64, "2024-08-03", "A. Walker"],
                [4_000_000_008_u64, "2024-04-03", "A. Walker"]
            ]),
            json!([
                ["iNaturalist Research-grade Observations"],
                ["iNaturalist Research-grade Observations"],
                ["iNaturalist Research-grade Observations"]
            ])
        ]
    );
    // One page, and the one dataset that all three come from once.
    assert_eq!(ran.requests, 2);
}

#[tokio::test]
async fn offsets_go_on_where_a_limit_stopped_and_what_is_not_there_is_not_found() {
    let (bench, server) = gbif().await;
    for limit in [300, 250, SEEN] {
        let before = server.seen().len();
        let parts =
            parts(&bench, &format!("Occurrence | filter(taxon = Taxon(2435099)) | limit({limit})[id]")).await;
        let rows: Vec<i64> = parts.iter().flat_map(|(rows, _)| rows.clone()).collect();
        let every: Vec<i64> = (0..SEEN as i64).map(|n| 4_000_000_000 + n).collect();
        assert_eq!(rows, every, "limit({limit})");
        assert_eq!(parts.last().map(|(_, coverage)| *coverage), Some(Covered::Complete));
        assert_eq!(server.seen().len() - before, 3, "limit({limit})");
    }
    let (code, said) = bench.fault("Taxon(1)").await;
    assert_eq!((code, said.contains("there is no Taxon")), ("not_found", true), "{said}");
}
