import { writeFileSync } from 'node:fs'

const titleOf = (test) => `${test.module.moduleId.split('/').pop()}: ${test.fullName}`

/** Counts what no single test reports: a file that does not load, a hook or a stray promise that fails. */
function errorsOutsideTests(modules, unhandledErrors) {
  let count = unhandledErrors.length
  for (const module of modules) {
    count += module.errors().length
    for (const suite of module.children.allSuites()) count += suite.errors().length
  }
  return count
}

/** Vitest reporter that leaves the counts in the file named by `ONCEWARD_SUMMARY`. */
export default class Summary {
  onTestRunEnd(modules, unhandledErrors) {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const inState = (state) => tests.filter((test) => test.result().state === state)
    const summary = {
      passed: inState('passed').length,
      failed: inState('failed').length + errorsOutsideTests(modules, unhandledErrors),
      skipped: inState('skipped').map(titleOf),
    }
    writeFileSync(process.env.ONCEWARD_SUMMARY, JSON.stringify(summary))
  }
}
