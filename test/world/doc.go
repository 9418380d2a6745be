// Package world gives a test everything a disruption lives in: a real API
// server, a real Temporal, and the worker and the bridge as they are shipped,
// each a process of the test. Only the kubelets are played: see Kubelets. It
// writes to nothing but temporary directories, and what it starts ends with the
// test.
//
//	func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		w := world.Start(t)
//		worker := w.Worker().Start()
//		bridge := w.Bridge("SQUALL_TEMPORAL_ADDRESS=" + proxy).Start()
//		w.Targets(10)
//		d := w.Create(w.Disruption("name", 10))
//		worker.Kill()
//		worker.Start()
//		w.Injected(d)
//		w.Delete(d)
package world
