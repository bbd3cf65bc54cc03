// Compiles every schema of OpenAPI documents with ajv in its strict mode, and checks every example against its schema.
// node compile_schemas.mjs FOLDER_WITH_NODE_MODULES DOCUMENT... → prints the number of schemas and of examples.
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"

const [folder, ...paths] = process.argv.slice(2)
const require = createRequire(`${folder}/`)
const Ajv = require("ajv/dist/2020").default
const formats = require("ajv-formats").default

const failures = []
let schemas = 0
let examples = 0

function place(value) {
  return JSON.parse(JSON.stringify(value).replaceAll("#/components/schemas/", "bullpen#/$defs/"))
}

function check(ajv, where, media) {
  if (media.schema === undefined) return failures.push(`${where}: no schema`)
  if (media.example === undefined) return failures.push(`${where}: no example`)
  const holds = ajv.compile(place(media.schema))
  examples += 1
  if (!holds(media.example)) failures.push(`${where}: ${ajv.errorsText(holds.errors)}`)
}

for (const path of paths) {
  const document = JSON.parse(readFileSync(path))
  const ajv = new Ajv({ strict: true, allErrors: true })
  formats(ajv)
  ajv.addKeyword("discriminator") // OpenAPI's own: it says which of `oneOf` to look at, and excludes nothing
  ajv.addSchema({ $id: "bullpen", $defs: place(document.components.schemas) })
  for (const name of Object.keys(document.components.schemas)) {
    schemas += 1
    try {
      ajv.compile({ $ref: `bullpen#/$defs/${name}` })
    } catch (error) {
      failures.push(`${name}: ${error.message}`)
    }
  }
  for (const [url, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const where = `${method} ${url}`
      for (const parameter of operation.parameters ?? []) ajv.compile(place(parameter.schema))
      for (const media of Object.values(operation.requestBody?.content ?? {})) check(ajv, `${where} request`, media)
      for (const [status, response] of Object.entries(operation.responses)) {
        for (const media of Object.values(response.content ?? {})) check(ajv, `${where} ${status}`, media)
      }
    }
  }
  for (const [name, response] of Object.entries(document.components.responses)) {
    for (const media of Object.values(response.content)) check(ajv, name, media)
  }
}
console.log(JSON.stringify({ schemas, examples, failures }))
