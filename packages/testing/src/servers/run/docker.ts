import { request } from 'node:http'

const PING_DEADLINE_MS = 500

let answer: Promise<boolean> | undefined

/** Whether a Docker engine answers at once; asked once per process, `ONCEWARD_DOCKER=0` says no. */
export function dockerAnswers(): Promise<boolean> {
  if (process.env['ONCEWARD_DOCKER'] === '0') return Promise.resolve(false)
  answer ??= pingDocker(process.env['DOCKER_HOST'] ?? 'unix:///var/run/docker.sock')
  return answer
}

/** Asks the engine at `host` (unix:// or tcp://) for a sign of life. */
export function pingDocker(host: string): Promise<boolean> {
  const url = new URL(host)
  const target =
    url.protocol === 'unix:'
      ? { socketPath: url.pathname }
      : { host: url.hostname, port: Number(url.port || 2375) }
  return new Promise((resolve) => {
    const ping = request({ ...target, path: '/_ping', timeout: PING_DEADLINE_MS }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    ping.once('timeout', () => ping.destroy())
    ping.once('error', () => resolve(false))
    ping.end()
  })
}
