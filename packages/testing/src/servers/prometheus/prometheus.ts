import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nativeServer, retryTakenPort, serverDirectory } from '../run/native.ts'
import { freePort } from '../run/ports.ts'
import { launch } from '../run/process.ts'
import type { Server } from '../run/server.ts'
import { prometheusBinaries } from './prometheus-binaries.ts'

/** How to reach a Prometheus. */
export interface PrometheusConnection {
  readonly url: string
}

/** Options of {@link prometheus}. */
export interface PrometheusOptions {
  /** Ports of programs on loopback whose `/metrics` is read every second. */
  readonly targets: readonly number[]
  /** Files of alert rules. */
  readonly rules?: readonly string[] | undefined
}

/** A real Prometheus of our own. */
export function prometheus(options: PrometheusOptions): Promise<Server<PrometheusConnection>> {
  return retryTakenPort(() => start(options))
}

async function start({
  rules = [],
  targets,
}: PrometheusOptions): Promise<Server<PrometheusConnection>> {
  const { prometheus: program } = await prometheusBinaries()
  const directory = await serverDirectory('prometheus')
  const port = await freePort()
  const address = `127.0.0.1:${port}`
  const names = rules.map((_, index) => `rules-${index}.yaml`)
  await Promise.all(rules.map((file, index) => cp(file, join(directory, names[index] as string))))
  // JSON is YAML.
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: names,
    scrape_configs: [
      {
        job_name: 'onceward',
        static_configs: [{ targets: targets.map((target) => `127.0.0.1:${target}`) }],
      },
    ],
  }
  await writeFile(join(directory, 'prometheus.yml'), JSON.stringify(config))
  const log = join(directory, 'prometheus.log')
  const url = `http://${address}`
  return nativeServer({
    ...{ name: 'prometheus', connection: { url }, directory, log, stopSignal: 'SIGTERM' },
    launch: () =>
      launch({
        command: program,
        args: [
          '--config.file=prometheus.yml',
          '--storage.tsdb.path=data',
          `--web.listen-address=${address}`,
        ],
        cwd: directory,
        directory,
        log,
      }),
    probe: async () => {
      const { ok, status } = await fetch(`${url}/-/ready`)
      if (!ok) throw new Error(`Prometheus answered ${status}`)
    },
  })
}
