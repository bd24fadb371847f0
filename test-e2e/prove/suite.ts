import { isExact, type ProveBroker } from '@onceward/testing/prove'
import { afterAll, describe, expect, test } from 'vitest'
import { BROKERS } from '../brokers/index.ts'
import { type ProvedConsumer, RIGHT, WRONG } from './consumers.ts'
import { consumerFile, proveOn, SharedServers } from './proving.ts'

export interface Suite {
  /** The right consumers that are proved. */
  readonly right?: readonly ProvedConsumer[]
}

/** Proves wrong and right consumers on a broker. */
export function describeProofs(broker: ProveBroker, { right = RIGHT }: Suite = {}): void {
  describe(`prove on ${BROKERS[broker].title}`, () => {
    const shared = new SharedServers(broker)
    afterAll(() => shared[Symbol.asyncDispose]())

    test.each(WRONG)('finds $title: $finds', async ({ file, finds, kills, says, seed }) => {
      const servers = await shared.given()
      const result = await proveOn(servers, { file: consumerFile(file), kills, seed })
      expect(result[finds], JSON.stringify(result)).toBeGreaterThan(0)
      expect(result.kills).toBe(kills)
      expect(result.causes.join('\n')).toContain(says)
    })

    test.each(right)('finds nothing wrong with $title', async ({ file, kills, seed }) => {
      const servers = await shared.given()
      const options = { file: consumerFile(file), events: 40, kills, seed, workers: 2 }
      const result = await proveOn(servers, options)
      expect(isExact(result), JSON.stringify(result)).toBe(true)
      expect(result.effects).toBe(40)
      expect(result.kills).toBeGreaterThanOrEqual(3)
    })
  })
}
