"""Writes what is made of the chart: values.schema.json and the manifests of `deploy/`.

    write.py GATEWAY
"""

import sys

import chart as charts
import plain
import schema

made = charts.CHART / "values.schema.json"
made.write_text(schema.whole(charts.BASE, sys.argv[1]))
with charts.loaded() as chart:
    for path, text in plain.files(chart).items():
        path.write_text(text)
        print(f"wrote {path.relative_to(charts.ROOT)}")
