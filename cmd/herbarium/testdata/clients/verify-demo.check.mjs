#!/usr/bin/env node
// Checks verify-demo.mjs against a host that @atproto/repo makes: it accepts what
// is right, and finds each of the things that it is there to find. A verifier that
// accepts everything would look the same on a sound host.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TID } from '@atproto/common'
import { P256Keypair, Secp256k1Keypair } from '@atproto/crypto'
import { MemoryBlockstore, Repo, WriteOpAction, blocksToCarFile, getFullRepo, readCarWithRoot } from '@atproto/repo'
import { CID } from 'multiformats/cid'
import * as raw from 'multiformats/codecs/raw'
import { sha256 } from 'multiformats/hashes/sha2'
import { checks, must } from './checks.mjs'

const { check, finish } = checks()
const OBSERVATION = 'garden.engram.agents.observation'
const CHAT = 'click.aligned.chat.session'
const MESSAGE = 'click.aligned.chat.message'

/** An agent with a repo in memory. */
class Agent {
  static async create(handle, did, keys) {
    const agent = new Agent()
    Object.assign(agent, { handle, did, keys, blobs: new Map(), storage: new MemoryBlockstore() })
    agent.repo = await Repo.create(agent.storage, agent.did, keys)
    return agent
  }
  async create(collection, record) {
    const rkey = TID.nextStr()
    this.repo = await this.repo.applyWrites(
      { action: WriteOpAction.Create, collection, rkey, record: { $type: collection, ...record } },
      this.keys,
    )
    const cid = await this.repo.data.get(`${collection}/${rkey}`)
    return { uri: `at://${this.did}/${collection}/${rkey}`, cid: cid.toString() }
  }
  async upload(text) {
    const bytes = Buffer.from(text)
    const cid = CID.createV1(raw.code, await sha256.digest(bytes))
    this.blobs.set(cid.toString(), bytes)
    return { $type: 'blob', ref: cid, mimeType: 'text/plain', size: bytes.length }
  }
  async car() {
    const chunks = []
    for await (const chunk of getFullRepo(this.storage, this.repo.cid)) chunks.push(chunk)
    return Buffer.concat(chunks)
  }
  document() {
    return {
      id: this.did,
      alsoKnownAs: [`at://${this.handle}`],
      verificationMethod: [
        { id: `${this.did}#atproto`, type: 'Multikey', controller: this.did, publicKeyMultibase: this.keys.did().slice('did:key:'.length) },
      ],
      service: [{ id: '#atproto_pds', type: 'AtprotoPersonalDataServer', serviceEndpoint: 'https://host.example' }],
    }
  }
}

// A world like the demo's: two agents, a chain of three, a conversation over both repos.
const scout = await Agent.create('scout.test', 'did:web:scout.test', await P256Keypair.create())
const scribe = await Agent.create('scribe.test', `did:plc:${'a'.repeat(24)}`, await Secp256k1Keypair.create())
const records = []
const keep = async (made) => (records.push(await made), records.at(-1))
const chain = []
for (const text of ['one', 'two', 'three']) {
  const content = await scout.upload(text)
  const supersedes = chain.at(-1)
  chain.push(await keep(scout.create(OBSERVATION, { text, content, ...(supersedes && { supersedes }) })))
}
const single = await keep(scout.create(OBSERVATION, { text: 'alone' }))
const unreferenced = await scout.upload('never referenced')
const chat = await keep(scribe.create(CHAT, {}))
const turns = []
for (const [who, text] of [[scribe, 'a'], [scout, 'b'], [scribe, 'c']]) {
  turns.push((await keep(who.create(MESSAGE, { session: chat.uri, text }))).uri)
}
const other = await keep(scribe.create(OBSERVATION, { text: 'of the other agent' }))

const cars = new Map()
for (const agent of [scout, scribe]) cars.set(agent.did, await agent.car())

/** Serves the two agents, with what `faults` changes. */
function answer(url, requestedHost, faults) {
  const method = url.pathname.split('/').at(-1)
  const agent = [scout, scribe].find(({ did, handle }) => did === url.searchParams.get('did') || handle === requestedHost)
  switch (method) {
    case scribe.did: // as a PLC directory
      return [200, 'application/did+ld+json', JSON.stringify(scribe.document())]
    case 'did.json':
      return [200, 'application/json', JSON.stringify((faults.document ?? ((a) => a.document()))(agent))]
    case 'com.atproto.sync.getRepo':
      return [200, 'application/vnd.ipld.car', faults.cars?.get(agent.did) ?? cars.get(agent.did)]
    case 'com.atproto.sync.getLatestCommit':
      return [200, 'application/json', JSON.stringify({ cid: agent.repo.cid.toString(), rev: agent.repo.commit.rev })]
    case 'com.atproto.sync.getBlob': {
      const cid = url.searchParams.get('cid')
      if (cid === unreferenced.ref.toString() && !faults.servesAll) return [400, 'application/json', '{"error":"BlobNotFound"}']
      return [200, 'text/plain', (faults.blob ?? ((bytes) => bytes))(agent.blobs.get(cid))]
    }
    case 'garden.herbarium.getObservationHistory': {
      const versions = [chain, [single], [other]].find((members) => members.some(({ uri }) => uri === url.searchParams.get('uri')))
      return [200, 'application/json', JSON.stringify((faults.history ?? ((v) => v))({ head: versions.at(-1), versions: [...versions].reverse() }))]
    }
    case 'garden.herbarium.getConversation':
      return [200, 'application/json', JSON.stringify({ conversation: { turns: (faults.turns ?? ((t) => t))(turns.map((uri) => ({ uri }))) } })]
    default:
      return [404, 'text/plain', method]
  }
}

const dir = await mkdtemp(join(tmpdir(), 'verify-demo-'))
let faults = {}
const server = createServer((request, response) => {
  const [status, type, body] = answer(new URL(request.url, 'http://h'), request.headers.host, faults)
  response.writeHead(status, { 'content-type': type }).end(body)
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')

const right = {
  agents: [scout, scribe].map(({ did, handle }) => ({ did, handle, accessJwt: 'any' })),
  records,
  blobs: [...scout.blobs].map(([cid, bytes]) => ({ did: scout.did, cid, mimeType: 'text/plain', size: bytes.length })),
  chains: [{ head: chain[2].uri, members: chain.map(({ uri }) => uri) }, { head: single.uri, members: [single.uri] }],
  conversation: { uri: chat.uri, turns },
}

/** Runs the verifier: [exit code, output]. */
async function verify(manifest, changed = {}) {
  faults = changed
  const path = join(dir, 'manifest.json')
  await writeFile(path, JSON.stringify(manifest))
  const program = fileURLToPath(new URL('verify-demo.mjs', import.meta.url))
  const url = `http://127.0.0.1:${server.address().port}`
  const child = spawn(process.execPath, [program, path, url, '--plc-url', url, '--catch-up', '300'])
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const [code] = await once(child, 'close')
  return [code, output]
}

await check('what is right is accepted', async () => {
  const [code, output] = await verify(right)
  must(code === 0, output)
})
/** The verifier must fail, and say this. */
const finds = (what, says, manifest, changed) =>
  check(`it finds ${what}`, async () => {
    const [code, output] = await verify(manifest, changed)
    must(code === 1, `exit code ${code}: ${output}`)
    must(output.includes(says), `it does not say "${says}": ${output}`)
  })

const flip = (bytes, at) => {
  const copy = Buffer.from(bytes)
  copy[at] ^= 1
  return copy
}
await finds('a blob with a flipped bit', 'the hash of did:web:scout.test', right, { blob: (bytes) => flip(bytes, 0) })
await finds('a blob that is served without a reference', 'getBlob did:web:scout.test', right, { servesAll: true })
await finds('a flipped bit in a repo', 'FAIL  scout.test: the repo', right, {
  cars: new Map([[scout.did, flip(cars.get(scout.did), cars.get(scout.did).length - 10)]]),
})
await finds('a block that does not belong there', 'blocks that the tree does not need', right, {
  cars: new Map([[scout.did, await withStrangeBlock(cars.get(scout.did))]]),
})
await finds("another agent's key in the DID document", 'is not signed by', right, {
  document: (agent) => ({ ...agent.document(), verificationMethod: scribe.document().verificationMethod.map((m) => ({ ...m, id: `${agent.did}#atproto` })) }),
})
await finds('a handle that the document does not name', 'did and handle', {
  ...right, agents: right.agents.map((agent) => ({ ...agent, handle: 'scout.test' })),
})
await finds('a wrong CID', chain[0].uri, { ...right, records: records.map((r) => (r === chain[0] ? { ...r, cid: chain[1].cid } : r)) })
await finds('a record that is in no repo', 'is in no repo', { ...right, records: [...records, { ...single, uri: `${single.uri}x` }] })
await finds('a record that was not announced', 'does not list', { ...right, records: records.filter((r) => r !== single) })
await finds('a blob that was not announced', 'does not list', { ...right, blobs: right.blobs.slice(1) })
await finds('a chain in another order', 'the chain with the head', {
  ...right, chains: [{ head: chain[2].uri, members: [chain[1], chain[0], chain[2]].map(({ uri }) => uri) }],
})
await finds('a chain that was not announced', 'does not list the chain', { ...right, chains: right.chains.slice(1) })
await finds('an appview that shows another head', 'FAIL  the appview shows these chains', right, {
  history: (view) => ({ ...view, head: view.versions.at(-1) }),
})
await finds('an appview that leaves out a version', 'FAIL  the appview shows these chains', right, {
  history: (view) => ({ ...view, versions: view.versions.slice(1) }),
})
await finds('an appview that shows turns in another order', 'FAIL  the appview shows these turns', right, { turns: (shown) => shown.toReversed() })
await finds('turns in another order', 'turns', { ...right, conversation: { uri: chat.uri, turns: [turns[1], turns[0], turns[2]] } })
await finds('a turn that is missing', 'turns', { ...right, conversation: { uri: chat.uri, turns: turns.slice(1) } })

server.close()
await rm(dir, { recursive: true })
finish()

/** The CAR with one more block, whose CID is right. */
async function withStrangeBlock(car) {
  const { root, blocks } = await readCarWithRoot(car)
  await blocks.add({ text: 'deleted, and still exported' })
  return Buffer.from(await blocksToCarFile(root, blocks))
}
