import { randomUUID } from 'node:crypto'
import { until } from '@onceward/testing'
import { expect } from 'vitest'
import { type Payment, pay, send } from './client.ts'
import type { LaterScenario } from './matrix.ts'
import type { ServerConfig } from './protocol.ts'
import { firstServer, nothingIsLeft, openLedger } from './scenario.ts'
import { ServerProcess } from './server-process.ts'

const edge = 'webhook later'

/**
 * One server dies at the point, before or after it has answered 202. Its provider delivers until it gets 2xx, and then no
 * more, so another process must run what the dead one has accepted.
 */
export async function playLater({ framework, row }: LaterScenario): Promise<void> {
  await using ledger = await openLedger()
  const victim: Payment = { edge, key: randomUUID(), charge: { cents: 500 } }
  const config: ServerConfig = { edge, framework, databaseUrl: ledger.url }
  await using first = await firstServer(config, row.death, victim)
  const urls = [await first.server.url()]
  const provider = pay(() => urls.at(-1) ?? '', victim)
  await first.reached()
  if (row.answered) expect((await provider).status).toBe(202)
  // Not earlier, or its poller could be faster than the first one is at its point.
  await using second = new ServerProcess(config)
  const url = await second.url()
  const other: Payment = { edge, key: randomUUID(), charge: { cents: 7 } }
  expect((await pay(() => url, other)).status).toBe(202)
  urls.push(url)
  await first.die()
  expect((await provider).status, second.log).toBe(202)

  const once = { [other.key]: 1, [victim.key]: 1 }
  const isOver = async (): Promise<boolean> => Object.keys(await ledger.charges()).length === 2
  await until(isOver, { what: 'the run of both deliveries', deadlineMs: 60_000 })
  for (let copy = 0; copy < 3; copy += 1) {
    expect((await send(url, victim)).status, second.log).toBe(202)
  }
  await nothingIsLeft(ledger)
  expect(await ledger.charges(), second.log).toEqual(once)
}
