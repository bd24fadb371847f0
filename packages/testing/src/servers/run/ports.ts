import { randomInt } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isRunning } from './process-tree.ts'

// Below the ephemeral range of Linux (32768) and of macOS (49152): while a server is killed, no
// outgoing connection can be given its port, and a client that retries cannot connect to itself.
const LOWEST_PORT = 20_000
const HIGHEST_PORT = 32_000

/** One file per reserved port, with the id of the process that holds it. */
const RESERVATIONS = join(tmpdir(), `onceward-ports-${process.getuid?.() ?? 0}`)

/**
 * A port on loopback that no server listens on and no outgoing connection will be given.
 *
 * The port stays this process's until it ends: test files that run side by side do not take the port of a server that
 * has not started yet or is killed for a while.
 */
export async function freePort(): Promise<number> {
  await mkdir(RESERVATIONS, { recursive: true })
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(LOWEST_PORT, HIGHEST_PORT)
    if ((await reserve(port)) && (await canListen(port))) return port
  }
  throw new Error(`no free port between ${LOWEST_PORT} and ${HIGHEST_PORT}`)
}

async function reserve(port: number): Promise<boolean> {
  const file = join(RESERVATIONS, String(port))
  const holder = Number(await readFile(file, 'utf8').catch(() => ''))
  if (holder > 0) {
    if (!isRunning(holder)) await rm(file, { force: true })
    // Even then: another process may be about to reserve the port that has just become free.
    return false
  }
  return writeFile(file, String(process.pid), { flag: 'wx' }).then(
    () => true,
    () => false,
  )
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
