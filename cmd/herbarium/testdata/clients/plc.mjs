#!/usr/bin/env node
// An in-memory PLC directory on loopback, for tests: it keeps operations until it
// ends, and accepts only what @did-plc/lib finds valid (structure, genesis hash,
// signature by a rotation key, order, the recovery window).
//
// It answers as the public directory does (https://web.plc.directory/spec/v0.1/did-plc):
//
//   GET  /_health           {"version": …}
//   POST /:did              append an operation (genesis, update or tombstone)
//   GET  /:did              the DID document, keys as Multikey
//   GET  /:did/data         the current state
//   GET  /:did/log          the operations that count
//   GET  /:did/log/last     the newest of them
//   GET  /:did/log/audit    every operation with CID, time and whether it was nullified
//
// Unknown DIDs are 404, tombstoned ones 410, refused operations 400, each with {"message"}.
// It writes one line to stdout when it listens: {"port":…,"url":…}. It ends on
// SIGTERM or SIGINT, or when its standard input closes (--until-stdin-ends).

import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import { check, cidForCbor } from '@atproto/common'
import * as plc from '@did-plc/lib'

const HELP = `usage: node plc.mjs [--port N] [--until-stdin-ends]

An in-memory PLC directory on 127.0.0.1. Prints {"port":N,"url":"…"} when ready.

  --port N             listen on this port; default: a free one
  --until-stdin-ends   stop when standard input is closed
`

const MAX_BODY = 16 * 1024 // bytes; a PLC operation has less than 4,000

const { values: options } = parseArgs({
  options: {
    help: { type: 'boolean', short: 'h' },
    port: { type: 'string', default: '0' },
    'until-stdin-ends': { type: 'boolean' },
  },
})
if (options.help) {
  process.stdout.write(HELP)
  process.exit(0)
}

/** Something that the caller is told: a status and a message. */
class Refusal extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

/** The directory: for each DID its operations, oldest first, nullified ones included. */
const entries = new Map()

const active = (did) => (entries.get(did) ?? []).filter((entry) => !entry.nullified)

function lastOf(did) {
  const last = active(did).at(-1)
  if (!last) throw new Refusal(404, `DID not registered: ${did}`)
  return last
}

function dataOf(did) {
  const data = plc.opToData(did, lastOf(did).operation)
  if (!data) throw new Refusal(410, `DID not available: ${did}`)
  return data
}

/** Appends an operation, or throws with the reason against it. */
async function append(did, operation) {
  if (!check.is(operation, plc.def.compatibleOpOrTombstone)) {
    throw new Refusal(400, 'Not a valid operation')
  }
  let nullified
  try {
    ;({ nullified } = await plc.assureValidNextOp(did, active(did), operation))
  } catch (err) {
    throw new Refusal(400, `${err.name === 'Error' ? err.constructor.name : err.name}: ${err.message}`)
  }
  const log = entries.get(did) ?? []
  for (const entry of log) {
    if (nullified.some((cid) => cid.equals(entry.cid))) entry.nullified = true
  }
  const cid = await cidForCbor(operation)
  log.push({ did, operation, cid, nullified: false, createdAt: new Date() })
  entries.set(did, log)
}

// Operations are checked against the log as it is: one after the other.
let queue = Promise.resolve()
function appendInTurn(did, operation) {
  const done = queue.then(() => append(did, operation))
  queue = done.catch(() => {})
  return done
}

/** The DID document of a state, in the form that the public directory serves. */
function documentOf(data) {
  const context = ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/multikey/v1']
  const verificationMethod = Object.entries(data.verificationMethods).map(([name, key]) => ({
    id: `${data.did}#${name}`,
    type: 'Multikey',
    controller: data.did,
    publicKeyMultibase: key.replace(/^did:key:/, ''),
  }))
  const service = Object.entries(data.services).map(([name, { type, endpoint }]) => ({
    id: `#${name}`,
    type,
    serviceEndpoint: endpoint,
  }))
  return { '@context': context, id: data.did, alsoKnownAs: data.alsoKnownAs, verificationMethod, service }
}

async function readJSON(request) {
  const chunks = []
  let size = 0
  for await (const chunk of request) {
    size += chunk.length
    if (size > MAX_BODY) throw new Refusal(413, 'Operation too large')
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    throw new Refusal(400, 'Not JSON')
  }
}

const auditForm = (entry) => ({ ...entry, cid: entry.cid.toString(), createdAt: entry.createdAt.toISOString() })

/** Answers one request: [content type, body]. */
async function answer(request) {
  const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname)
  if (path === '/_health') return ['application/json', { version: 'in-memory' }]
  const [, did, rest = ''] = path.match(/^\/(did:plc:[a-z2-7]{24})(\/.*)?$/) ?? []
  if (!did) throw new Refusal(400, `Not a did:plc: ${path}`)
  if (request.method === 'POST' && rest === '') {
    await appendInTurn(did, await readJSON(request))
    return ['application/json', {}]
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') throw new Refusal(405, 'Method not allowed')
  switch (rest) {
    case '':
      return ['application/did+ld+json', documentOf(dataOf(did))]
    case '/data':
      return ['application/json', dataOf(did)]
    case '/log':
      lastOf(did)
      return ['application/json', active(did).map((entry) => entry.operation)]
    case '/log/last':
      return ['application/json', lastOf(did).operation]
    case '/log/audit':
      lastOf(did)
      return ['application/json', entries.get(did).map(auditForm)]
    default:
      throw new Refusal(404, `No such path: ${path}`)
  }
}

const server = createServer(async (request, response) => {
  let status = 200
  let type = 'application/json'
  let body
  try {
    ;[type, body] = await answer(request)
  } catch (err) {
    status = err.status ?? 500
    body = { message: err.message }
    if (status === 500) console.error(err)
    type = 'application/json'
  }
  response.writeHead(status, { 'content-type': `${type}; charset=utf-8` })
  response.end(JSON.stringify(body))
})

server.listen(Number(options.port), '127.0.0.1', () => {
  const { port } = server.address()
  console.log(JSON.stringify({ port, url: `http://localhost:${port}` }))
})

const stop = () => process.exit(0)
process.on('SIGTERM', stop)
process.on('SIGINT', stop)
if (options['until-stdin-ends']) process.stdin.on('end', stop).resume()
