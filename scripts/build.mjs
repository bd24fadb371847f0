import { run, tool } from './process.mjs'

/** Runs a turbo task over all packages, from the cache where nothing changed. */
export function turbo(task, options = []) {
  const args = ['run', task, '--output-logs=errors-only', '--log-order=grouped', '--ui=stream']
  return run(tool('turbo'), [...args, '--continue=dependencies-successful', ...options], {
    quiet: true,
  })
}
