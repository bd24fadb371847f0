import { expect, test } from 'vitest'
import { Clock } from '../fixtures/clock.ts'
import { silent } from '../fixtures/inbox.ts'
import { withNotices } from '../model/logger.ts'
import { duplicatesLog } from './duplicates-line.ts'

const secret = new Uint8Array(32)
const keyHash = expect.stringMatching(/^[0-9a-f]{16}$/)

test.each([true, false])(
  'the first duplicate is told at once, the next ones with a number (keys in clear: %s)',
  async (logKeys) => {
    const lines: object[] = []
    const clock = new Clock()
    const logger = withNotices({ ...silent, info: (fields) => void lines.push(fields) })
    const log = duplicatesLog({ consumer: 'billing', logger, logKeys, runtime: clock.runtime })
    const line = (duplicates: number, key: string): object => ({
      ...{ consumer: 'billing', duplicates, eventId: undefined, keyHash },
      ...(logKeys ? { key } : {}),
    })
    log.note({ key: 'order-1', secret })
    expect(lines).toEqual([line(1, 'order-1')])
    for (const key of ['order-2', 'order-3']) log.note({ key, secret })
    await clock.advance(59_999)
    log.note({ key: 'order-4', secret })
    expect(lines).toHaveLength(1)
    await clock.advance(1)
    log.note({ key: 'order-5', secret })
    expect(lines.slice(1)).toEqual([line(4, 'order-5')])
    log.note({ key: 'order-6', secret })
    // As when the guard is closed.
    for (let twice = 0; twice < 2; twice += 1) log.write()
    expect(lines.slice(2)).toEqual([line(1, 'order-6')])
  },
)
