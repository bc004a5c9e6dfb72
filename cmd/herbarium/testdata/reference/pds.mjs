#!/usr/bin/env node
// Runs the reference PDS, @atproto/pds, on loopback for a migration test: with
// everything in one new folder, no mail, no limits, no crawlers, open to anybody.
// It writes one line to stdout when it listens: {"port":…,"url":…}. It ends on
// SIGTERM or SIGINT, or when its standard input closes, and removes the folder.

import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PDS, envToCfg, envToSecrets, readEnv } from '@atproto/pds'

const [plcURL] = process.argv.slice(2)
if (!plcURL) {
  process.stderr.write('usage: node pds.mjs PLC_URL   (with the host name localhost)\n')
  process.exit(1)
}

/** A port of loopback that was free a moment ago. */
const port = await new Promise((resolve, reject) => {
  const probe = createServer().once('error', reject)
  probe.listen(0, '127.0.0.1', () => {
    const { port } = probe.address()
    probe.close(() => resolve(port))
  })
})
const folder = await mkdtemp(join(tmpdir(), 'reference-pds-'))
const hex = () => randomBytes(32).toString('hex')

Object.assign(process.env, {
  PDS_PORT: String(port),
  PDS_HOSTNAME: 'localhost',
  PDS_DEV_MODE: 'true', // did:web, the directory and other hosts may be on loopback
  PDS_DID_PLC_URL: plcURL,
  PDS_DATA_DIRECTORY: folder,
  PDS_BLOBSTORE_DISK_LOCATION: join(folder, 'blobs'),
  PDS_BLOBSTORE_DISK_TMP_LOCATION: join(folder, 'blobs-temp'),
  PDS_SERVICE_HANDLE_DOMAINS: '.test',
  PDS_ACCEPTING_REPO_IMPORTS: 'true',
  PDS_INVITE_REQUIRED: 'false',
  PDS_RATE_LIMITS_ENABLED: 'false',
  PDS_CRAWLERS: '',
  PDS_JWT_SECRET: hex(),
  PDS_ADMIN_PASSWORD: hex(),
  PDS_PLC_ROTATION_KEY_K256_PRIVATE_KEY_HEX: hex(),
  LOG_ENABLED: 'false',
})
const env = readEnv()
const pds = await PDS.create(envToCfg(env), envToSecrets(env))
await pds.start()
console.log(JSON.stringify({ port, url: `http://localhost:${port}` }))

let stopping = false
async function stop() {
  if (stopping) return
  stopping = true
  await Promise.race([pds.destroy(), new Promise((done) => setTimeout(done, 3000))])
  await rm(folder, { recursive: true, force: true })
  process.exit(0)
}
process.on('SIGTERM', stop)
process.on('SIGINT', stop)
process.stdin.on('end', stop).resume()
