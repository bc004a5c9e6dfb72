#!/usr/bin/env node
// The independent verifier of `herbarium demo`: it shares no code with Herbarium
// and believes nothing that the host says about itself. It takes the manifest that
// the demo wrote, exports each agent's repo, and checks with @ipld/car,
// @atproto/repo and @atproto/crypto that what was printed is what was signed.
//
// For each agent:
//   - the DID document (did:web from the host, by Host header; did:plc from the
//     directory) names the handle, and its #atproto key signed the commit;
//   - each block of the CAR hashes to its CID; the blocks are exactly those that
//     the signed tree needs: the tree built anew from its own leaves has the
//     same root, and nothing is missing or left over (what was deleted is gone);
//   - the records of the repo are exactly those of the manifest, by URI and CID.
// Then, from the exported records alone:
//   - each blob that a record refers to is in the manifest, and its bytes, as
//     getBlob serves them, have the size and the SHA-256 that its CID promises;
//     a blob of the manifest that no record refers to is not served;
//   - the chains of observations, recomputed from `supersedes`, and the turns of
//     the conversation, in the order of their record keys, are those of the manifest,
//     and those that the appview shows (getObservationHistory, getConversation).
//
// # The manifest
//
// One JSON object, as cmd/herbarium/demo/manifest.go writes it:
//
//   {
//     "host":    URL of the host when the demo ran (the argument URL is used instead),
//     "service": DID of the host,
//     "agents":  [{"did", "handle", "accessJwt"}],   accessJwt: for the agent's own reads;
//                without one, HERBARIUM_ADMIN_PASSWORD is used
//     "records": [{"uri", "cid"}],                   every record that stands at the end
//     "blobs":   [{"did", "cid", "mimeType", "size"}],  every blob that was uploaded; optional
//                "sha256" (hex) is compared as well
//     "chains":  [{"head": URI, "members": [URI, …]}],  oldest first, the last is the head;
//                every chain of two or more observations; longer lists may name single ones
//     "conversation": {"uri", "turns": [URI, …]}     in reading order
//   }
//
// Fields that are not listed here are ignored.

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { verifySignature } from '@atproto/crypto'
import { ensureAtpDocument } from '@atproto/identity'
import { MST, MemoryBlockstore, verifyRepoCar } from '@atproto/repo'
import { CarReader } from '@ipld/car'
import * as dagCbor from '@ipld/dag-cbor'
import { CID } from 'multiformats/cid'
import * as raw from 'multiformats/codecs/raw'
import { sha256 } from 'multiformats/hashes/sha2'
import { checks, must, same } from './checks.mjs'

const HELP = `usage: node verify-demo.mjs MANIFEST.json URL [--plc-url URL] [--catch-up MS]

Checks what \`herbarium demo --manifest MANIFEST.json\` wrote to the host at URL,
from exported repos with verified signatures. See the head of this file.

  --plc-url URL   the PLC directory for did:plc agents; default: $PLC_URL, or
                  https://plc.directory
  --catch-up MS   how long the index may need to have what was written last;
                  default: 15000
`

const OBSERVATION = 'garden.engram.agents.observation'
const MESSAGE = 'click.aligned.chat.message'

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    help: { type: 'boolean', short: 'h' },
    'catch-up': { type: 'string', default: '15000' },
    'plc-url': { type: 'string', default: process.env.PLC_URL ?? 'https://plc.directory' },
  },
})
if (options.help) {
  process.stdout.write(HELP)
  process.exit(0)
}
if (positionals.length !== 2) {
  process.stderr.write(HELP)
  process.exit(1)
}
const [manifestPath, host] = positionals
const { check, report, finish } = checks()

const manifest = JSON.parse(await readFile(manifestPath, 'utf8'))
for (const list of ['agents', 'records', 'blobs', 'chains']) {
  must(Array.isArray(manifest[list]) && manifest[list].length > 0, `the manifest lists no ${list}`)
}

const repos = []
for (const agent of manifest.agents) {
  const repo = await check(`${agent.handle}: the repo is whole, canonical and signed`, () => exportRepo(agent))
  if (!repo) continue
  repos.push(repo)
  report(`${agent.handle}: ${repo.records.size} records at rev ${repo.rev} (${repo.did})`)
}
if (repos.length < manifest.agents.length) finish() // the rest would say nothing
await check("no repo verifies with another agent's key", async () => {
  for (const repo of repos) {
    for (const other of repos) {
      if (other === repo) continue
      must(!(await signedBy(repo.commit, other.key)), `${repo.did} verifies with the key of ${other.did}`)
    }
  }
})

// Every record of every exported repo: uri -> {cid, value}.
const records = new Map(repos.flatMap((repo) => [...repo.records]))

await check(`the ${manifest.records.length} records of the manifest are in the repos, with these CIDs`, () => {
  for (const { uri, cid } of manifest.records) {
    must(records.has(uri), `${uri} is in no repo`)
    same(records.get(uri).cid, cid, uri)
  }
})
await check('the repos hold nothing else', () => {
  const listed = new Set(manifest.records.map((record) => record.uri))
  same([...records.keys()].filter((uri) => !listed.has(uri)), [], 'records that the manifest does not list')
})

// --- blobs

const referenced = new Map() // did + cid -> the blob reference in a record
for (const repo of repos) {
  for (const { value } of repo.records.values()) {
    for (const ref of blobRefs(value)) referenced.set(`${repo.did} ${ref.cid}`, { ...ref, did: repo.did })
  }
}
const uploaded = new Map(manifest.blobs.map((blob) => [`${blob.did} ${blob.cid}`, blob]))

await check('every blob that a record refers to is in the manifest', () => {
  same([...referenced.keys()].filter((key) => !uploaded.has(key)), [], 'blobs that the manifest does not list')
})
await check(`the bytes of ${referenced.size} blobs have the hashes and sizes that the records name`, async () => {
  for (const [key, ref] of referenced) {
    const { status, headers, body } = await getBlob(ref.did, ref.cid)
    must(status === 200, `getBlob ${key}: ${status} ${body.toString().slice(0, 200)}`)
    same(CID.createV1(raw.code, await sha256.digest(body)).toString(), ref.cid, `the hash of ${key}`)
    same([body.length, headers.get('content-type')], [ref.size, ref.mimeType], `size and type of ${key}`)
    const listed = uploaded.get(key)
    if (!listed) continue
    same([listed.size, listed.mimeType], [ref.size, ref.mimeType], `size and type of ${key} in the manifest`)
    if (listed.sha256) same(createHash('sha256').update(body).digest('hex'), listed.sha256, `sha256 of ${key}`)
  }
})
await check('what was uploaded and is in no record is not served', async () => {
  for (const [key, blob] of uploaded) {
    if (referenced.has(key)) continue
    const { status } = await getBlob(blob.did, blob.cid)
    must(status === 400 || status === 404, `getBlob ${key}: ${status}`)
  }
})

// --- chains and turns, from the records alone

const observations = [...records].filter(([uri]) => collectionOf(uri) === OBSERVATION)
const chains = await check(`the chains of ${observations.length} observations follow from supersedes`, () => chainsOf(observations))
await check(`the ${manifest.chains.length} chains of the manifest are these`, () => {
  must(chains, 'they could not be computed')
  const listed = new Map(manifest.chains.map((chain) => [chain.head, chain.members]))
  for (const { head, members } of manifest.chains) {
    same(members.at(-1), head, 'the last member of a chain is its head')
    same(chains.get(head), members, `the chain with the head ${head}`)
  }
  for (const [head, members] of chains) {
    must(members.length < 2 || listed.has(head), `the manifest does not list the chain with the head ${head}`)
  }
})
await check('the appview shows these chains', async () => {
  for (const [head, members] of chains ?? []) {
    await soon(async () => {
      const history = await view('garden.herbarium.getObservationHistory', { uri: members[0], limit: 100 })
      same(history.head, { uri: head, cid: records.get(head).cid }, `the head of ${members[0]}`)
      const versions = history.versions.map(({ uri, cid }) => ({ uri, cid }))
      same(versions.reverse(), members.map((uri) => ({ uri, cid: records.get(uri).cid })), `the versions of ${head}`)
    })
  }
})

const { uri: conversation, turns } = manifest.conversation
const computedTurns = [...records]
  .filter(([uri, { value }]) => collectionOf(uri) === MESSAGE && value.session === conversation)
  .map(([uri]) => uri)
  .sort(byKey)
await check(`the ${turns.length} turns of the conversation are in order`, () => {
  must(records.has(conversation), `${conversation} is in no repo`)
  must(computedTurns.length > 0, `no message belongs to ${conversation}`)
  same(computedTurns, turns, 'turns')
})
await check('the appview shows these turns', () =>
  soon(async () => {
    const shown = await view('garden.herbarium.getConversation', { uri: conversation, limit: 100 })
    same(shown.conversation.turns.map(({ uri }) => uri), computedTurns, 'turns that the appview shows')
  }),
)

finish()

// --- how it is done

/** Exports and verifies one repo: {did, key, commit, rev, records: Map(uri -> {cid, value})}. */
async function exportRepo(agent) {
  const key = await signingKey(agent)
  const response = await get('com.atproto.sync.getRepo', { did: agent.did }, agent)
  must(response.status === 200, `getRepo: ${response.status} ${response.body.toString().slice(0, 200)}`)

  const car = await CarReader.fromBytes(response.body)
  const roots = await car.getRoots()
  must(roots.length === 1, `the CAR has ${roots.length} roots`)
  const blocks = new Map()
  for await (const { cid, bytes } of car.blocks()) {
    must(!blocks.has(cid.toString()), `block ${cid} comes twice`)
    same(CID.createV1(cid.code, await sha256.digest(bytes)).toString(), cid.toString(), 'the hash of a block')
    blocks.set(cid.toString(), bytes)
  }

  // The commit: by our own reading first, then by the library's.
  must(blocks.has(roots[0].toString()), 'the CAR does not have its root')
  const commit = dagCbor.decode(blocks.get(roots[0].toString()))
  same([commit.did, commit.version], [agent.did, 3], 'did and version of the commit')
  must(await signedBy(commit, key), `the commit is not signed by ${key}`)
  const verified = await verifyRepoCar(response.body, agent.did, key)

  // The leaves, and a tree that is built from nothing else.
  const records = new Map()
  let tree = await MST.create(new MemoryBlockstore())
  for (const { collection, rkey, cid } of verified.creates) {
    const bytes = blocks.get(cid.toString())
    must(bytes, `the CAR lacks the record ${collection}/${rkey}`)
    records.set(`at://${agent.did}/${collection}/${rkey}`, { cid: cid.toString(), value: dagCbor.decode(bytes) })
    tree = await tree.add(`${collection}/${rkey}`, cid)
  }
  const rebuilt = await tree.getUnstoredBlocks()
  same(rebuilt.root.toString(), commit.data.toString(), 'the root of the tree built from the leaves')
  const needed = new Set([roots[0], ...rebuilt.blocks.cids()].map(String))
  for (const { cid } of records.values()) needed.add(cid)
  same([...blocks.keys()].filter((cid) => !needed.has(cid)), [], 'blocks that the tree does not need')
  same([...needed].filter((cid) => !blocks.has(cid)), [], 'blocks that are missing')

  const { body } = await get('com.atproto.sync.getLatestCommit', { did: agent.did }, agent)
  same(JSON.parse(body), { cid: roots[0].toString(), rev: commit.rev }, 'getLatestCommit')
  return { did: agent.did, key, commit, rev: commit.rev, records }
}

/** Whether a commit's signature is by a did:key: over its DAG-CBOR without sig. */
function signedBy({ sig, ...unsigned }, key) {
  return verifySignature(key, dagCbor.encode(unsigned), sig)
}

/** The did:key that the agent's DID document names for its commits. */
async function signingKey({ did, handle }) {
  const document = did.startsWith('did:web:') ? await webDocument(did) : await plcDocument(did)
  const data = ensureAtpDocument(document)
  same([data.did, data.handle], [did, handle], 'did and handle of the DID document')
  return data.signingKey
}

/** The document of a did:web that this host serves, asked for as its own domain. */
function webDocument(did) {
  const domain = decodeURIComponent(did.slice('did:web:'.length))
  // fetch does not let a caller choose the Host header; http.request does.
  return new Promise((resolve, reject) => {
    const asked = request(new URL('/.well-known/did.json', host), { headers: { host: domain } }, async (response) => {
      try {
        const chunks = await response.toArray()
        must(response.statusCode === 200, `did.json of ${domain}: ${response.statusCode}`)
        resolve(JSON.parse(Buffer.concat(chunks)))
      } catch (err) {
        reject(err)
      }
    })
    asked.on('error', reject)
    asked.end()
  })
}

async function plcDocument(did) {
  const response = await fetch(`${options['plc-url'].replace(/\/+$/, '')}/${did}`)
  must(response.ok, `${did}: the PLC directory answers ${response.status}`)
  return response.json()
}

/** Asks the host with the agent's credential: {status, headers, body}. */
async function get(method, params, agent) {
  const url = new URL(`/xrpc/${method}?${new URLSearchParams(params)}`, host)
  const admin = process.env.HERBARIUM_ADMIN_PASSWORD
  const headers = {}
  if (agent.accessJwt) headers.authorization = `Bearer ${agent.accessJwt}`
  else if (admin) headers.authorization = `Basic ${Buffer.from(`admin:${admin}`).toString('base64')}`
  const response = await fetch(url, { headers })
  return { status: response.status, headers: response.headers, body: Buffer.from(await response.arrayBuffer()) }
}

function getBlob(did, cid) {
  return get('com.atproto.sync.getBlob', { did, cid }, manifest.agents.find((agent) => agent.did === did) ?? {})
}

/** What a query of the appview answers, asked by the first agent. */
async function view(method, params) {
  const { status, body } = await get(method, params, manifest.agents[0])
  must(status === 200, `${method}: ${status} ${body.toString().slice(0, 200)}`)
  return JSON.parse(body)
}

/** Waits until a test holds: the index follows the repos, a moment later. */
async function soon(test) {
  const deadline = Date.now() + Number(options['catch-up'])
  for (;;) {
    try {
      return await test()
    } catch (err) {
      if (Date.now() > deadline) throw err
      await setTimeout(200)
    }
  }
}

/** The blob references anywhere in a record. */
function blobRefs(value) {
  if (value === null || typeof value !== 'object' || CID.asCID(value) || value instanceof Uint8Array) return []
  if (value.$type === 'blob') return [{ cid: value.ref.toString(), mimeType: value.mimeType, size: value.size }]
  return Object.values(value).flatMap(blobRefs)
}

/** The chains of observations: head -> members, oldest first. Throws on a fork, a dangling link or a circle. */
function chainsOf(observations) {
  const byURI = new Map(observations)
  const successor = new Map()
  for (const [uri, { value }] of observations) {
    const link = value.supersedes
    if (!link) continue
    must(byURI.has(link.uri), `${uri} supersedes ${link.uri}, which is in no repo`)
    same(byURI.get(link.uri).cid, link.cid, `the CID of ${link.uri} that ${uri} supersedes`)
    must(!successor.has(link.uri), `${link.uri} is superseded twice`)
    successor.set(link.uri, uri)
  }
  const chains = new Map()
  let members = 0
  for (const [uri, { value }] of observations) {
    if (value.supersedes) continue
    const chain = [uri]
    while (successor.has(chain.at(-1))) chain.push(successor.get(chain.at(-1)))
    chains.set(chain.at(-1), chain)
    members += chain.length
  }
  same(members, observations.length, 'observations in chains that have a beginning')
  return chains
}

function collectionOf(uri) {
  return uri.split('/')[3]
}

/** Orders URIs by record key, which for a TID is by time; equal keys by the URI. */
function byKey(a, b) {
  const [keyA, keyB] = [a, b].map((uri) => uri.split('/').at(-1))
  return keyA < keyB ? -1 : keyA > keyB ? 1 : a < b ? -1 : 1
}
