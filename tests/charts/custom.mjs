// Holds custom resources to the schemas of @kubernetes-models, one line each, strictly: a field that its schema never
// looks at is unknown, as a cluster would drop it in silence.
//   node custom.mjs FILE PACKAGES      FILE is a JSON array of {set, object}, PACKAGES has the node_modules
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [file, packages] = process.argv.slice(2);
const PACKAGE = {
  'gateway.networking.k8s.io': '@kubernetes-models/gateway-api',
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
};
// Maps with keys of one's own.
const OPEN = /\/(labels|annotations|matchLabels)$/;

// The value, noting in `read` the path of everything that is looked at.
function watched(value, path, read) {
  if (value === null || typeof value !== 'object') return value;
  return new Proxy(value, {
    get(target, key) {
      const at = `${path}/${String(key)}`;
      if (typeof key === 'string' && Object.hasOwn(target, key)) read.add(at);
      return watched(Reflect.get(target, key), at, read);
    },
  });
}

function* paths(value, path) {
  if (value === null || typeof value !== 'object' || OPEN.test(path)) return;
  for (const [key, inner] of Object.entries(value)) {
    yield `${path}/${key}`;
    yield* paths(inner, `${path}/${key}`);
  }
}

for (const { set, object } of JSON.parse(readFileSync(file, 'utf8'))) {
  const name = `${set}: ${object.kind} ${object.metadata.name} against ${object.apiVersion}`;
  const [group, version] = object.apiVersion.split('/');
  const models = await import(pathToFileURL(`${packages}/node_modules/${PACKAGE[group]}/${group}/${version}/index.js`));
  const model = models[object.kind];
  const faults = [];
  if (model === undefined) faults.push('there is no such kind');
  else {
    const read = new Set();
    const instance = new model(object);
    for (const key of Object.keys(instance)) instance[key] = watched(object[key], `/${key}`, read);
    try {
      instance.validate();
    } catch (error) {
      faults.push(error.message);
    }
    const unknown = [...paths(object, '')].filter(path => path.split('/').length > 2 && !read.has(path));
    faults.push(...unknown.map(path => `${path} is unknown`));
  }
  console.log(faults.length === 0 ? `ok ${name}` : `FAIL ${name}: ${faults.join('; ')}`);
}
