// @module-tag nightly

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { until } from '../../until.ts'
import { skipped } from '../run/server.ts'
import { prometheus } from './prometheus.ts'

test.skipIf(skipped('prometheus'))(
  'a Prometheus reads the metrics of its targets and answers queries',
  { timeout: 180_000 },
  async () => {
    const target = createServer((_, response) => response.end('answer{of="everything"} 42\n'))
    target.listen(0, '127.0.0.1')
    await once(target, 'listening')
    const { port } = target.address() as AddressInfo
    await using server = await prometheus({ targets: [port] })
    const query = `${server.connection.url}/api/v1/query?query=answer`
    const found = await until(async () => {
      const { data } = (await (await fetch(query)).json()) as {
        readonly data: { readonly result: readonly { readonly value: readonly unknown[] }[] }
      }
      return data.result[0]
    })
    expect(found.value[1]).toBe('42')
    target.close()
    target.closeAllConnections()
  },
)
